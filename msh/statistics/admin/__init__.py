"""Imported here is every module that shows something on a page of the console."""

from . import dashboard, last_hour, page

__all__ = ["dashboard", "last_hour", "page"]
