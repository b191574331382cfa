"""Where features take part in what the core does, without the core knowing them.

A feature is a Django app of its own (`INSTALLED_APPS`). Its module `extensions` registers its
functions at the extension points of the core. It is imported when the core first asks.
"""

from collections.abc import Callable, Iterator
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
        autodiscover_modules("extensions")
        for function in self._functions:
            if apps.is_installed(function.__module__.removesuffix(".extensions")):
                yield function
