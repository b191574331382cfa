"""Imported here is every module that shows something on a page of the console."""

from . import dashboard, page

__all__ = ["dashboard", "page"]
