"""Imported here is every module that registers a page."""

from . import act_request

__all__ = ["act_request"]
