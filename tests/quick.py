"""What a test process does once, or cheaply, that an MSH does properly."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.test import override_settings
from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped]


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
