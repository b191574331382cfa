"""Where features take part in what the core does, without the core knowing them.

A feature is a Django app of its own (`INSTALLED_APPS`). It registers its functions at the extension
points of the core in its module `extensions`, which is imported when the core first asks, and what
is about pages in its module `admin`, which is imported with all pages. Its modules `urls` and
`api_urls` have its addresses in the console and in the API.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, Generic, TypeVar

from django.apps import apps
from django.utils.module_loading import autodiscover_modules, module_has_submodule

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


def modules_of_features(name: str) -> Iterator[ModuleType]:
    """Import the module of this name of each installed feature that has one."""
    for config in apps.get_app_configs():
        is_feature = config.name.startswith("msh.") and config.module is not None
        if is_feature and module_has_submodule(config.module, name):
            yield import_module(f"{config.name}.{name}")


@lru_cache(maxsize=1)
def _import_extensions(installed: tuple[str, ...]) -> None:
    autodiscover_modules("extensions")


def _feature_of(function: Callable[..., Any]) -> str:
    """The name of its app: `msh.alerts` of what is in `msh.alerts.admin.recipient`."""
    return ".".join(function.__module__.split(".")[:2])
