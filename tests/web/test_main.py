"""The parent of the web processes, `python -m msh.web`."""

import sys
import threading
from types import ModuleType

import pytest
from django.core.exceptions import ImproperlyConfigured

from msh.web import __main__ as main


class Starting(ModuleType):
    """Loading it starts a thread."""

    ended = threading.Event()

    @property
    def application(self) -> object:
        threading.Thread(target=self.ended.wait, name="metrics", daemon=True).start()
        return object()


def test_an_application_that_starts_a_thread_while_it_is_loaded_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main._load()  # threads of others are theirs
    monkeypatch.setitem(sys.modules, "msh.wsgi", Starting("msh.wsgi"))
    with pytest.raises(ImproperlyConfigured, match=r"were loaded: metrics\. The web processes"):
        main._load()
    Starting.ended.set()
