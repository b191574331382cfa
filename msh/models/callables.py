"""Which functions of the application may be named: by consumers, resolvers and settings."""

import sys
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string


class NotAllowed(ImportError):
    """Nothing was imported. `str()` is a sentence that names the cure."""


def load(path: str) -> Callable[..., Any]:
    """Import the object that a dotted path names. Importing runs code, so MSH_CALLABLES says which
    modules may be named; those of the standard library never may. Raises NotAllowed, and the errors
    of the import."""
    prefixes = settings.MSH_CALLABLES
    if path.partition(".")[0] in sys.stdlib_module_names:
        raise NotAllowed(f"{path} is a function of Python itself, not of your application.")
    if prefixes and not any(_is_within(path, prefix) for prefix in prefixes):
        raise NotAllowed(
            f"{path} may not be named: MSH_CALLABLES allows {', '.join(prefixes)} only."
        )
    return import_string(path)  # type: ignore[no-any-return]


def _is_within(path: str, prefix: str) -> bool:
    bare = prefix.rstrip(".")
    return path == bare or path.startswith(f"{bare}.")
