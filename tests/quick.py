"""What a test process does once, cheaply or patiently, that an MSH does properly."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.test import override_settings
from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped]

from msh.flows import wake_up, wake_up_listener


class OneRound(PBKDF2PasswordHasher):
    """Of the million that make a password safe, and 0.3 s of CPU. An MSH can check it."""

    iterations = 1


@contextmanager
def passwords() -> Iterator[None]:
    with override_settings(PASSWORD_HASHERS=[f"{__name__}.{OneRound.__name__}"]):
        yield


@contextmanager
def static_files() -> Iterator[None]:
    """Each test client has a middleware of its own, which would look for all files anew."""
    find = WhiteNoiseMiddleware.add_files_from_finders
    found: dict[str, object] = {}

    def find_once(middleware: WhiteNoiseMiddleware) -> None:
        if not found:
            find(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", find_once)
        yield


@contextmanager
def patient_redis() -> Iterator[None]:
    """An MSH does without a wake-up that takes 0.1 s, as on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (wake_up, wake_up_listener):
            patch.setattr(module, "TRY_FOR", 30.0)
        yield
