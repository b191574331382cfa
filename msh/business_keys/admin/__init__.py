"""Imported here is every module that registers a page, or something on one."""

from . import business_key, found_by_key

__all__ = ["business_key", "found_by_key"]
