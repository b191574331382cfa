"""Imported here is every module that registers a page."""

from . import operator_notice, recipient

__all__ = ["operator_notice", "recipient"]
