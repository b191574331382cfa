"""The parent of the web processes, `python -m msh.web`."""

import threading

import pytest
from django.core.exceptions import ImproperlyConfigured

from msh.web import __main__ as main


def test_an_application_that_starts_a_thread_while_it_is_loaded_is_refused() -> None:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, name="metrics")
    thread.start()
    try:
        with pytest.raises(ImproperlyConfigured, match="metrics"):
            main._load()
    finally:
        ended.set()
        thread.join()
