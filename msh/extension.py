"""Where features take part in what the core does, without the core knowing them.

A feature is a Django app of its own (`INSTALLED_APPS`). It registers its functions at the extension
points of the core in its module `extensions`, which is imported when the core first asks, and what
is about pages in its module `admin`, which is imported with all pages.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Generic, TypeVar

from django.apps import apps
from django.utils.module_loading import autodiscover_modules

Function = TypeVar("Function", bound=Callable[..., Any])


class ExtensionPoint(Generic[Function]):
    """The functions that installed features have registered."""

    def __init__(self) -> None:
        self._functions: list[Function] = []

    def register(self, function: Function) -> Function:
        self._functions.append(function)
        return function

    def __iter__(self) -> Iterator[Function]:
        _import_extensions(tuple(apps.app_configs))
        return (one for one in self._functions if apps.is_installed(_feature_of(one)))


@lru_cache(maxsize=1)
def _import_extensions(installed: tuple[str, ...]) -> None:
    autodiscover_modules("extensions")


def _feature_of(function: Callable[..., Any]) -> str:
    """The name of its app: `msh.alerts` of what is in `msh.alerts.admin.recipient`."""
    return ".".join(function.__module__.split(".")[:2])
