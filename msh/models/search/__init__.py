"""What lists are searched by besides their own columns."""

from .business_key import BusinessKey, KeyProgress, KeyRule
from .saved_filter import SavedFilter

__all__ = ["BusinessKey", "KeyProgress", "KeyRule", "SavedFilter"]
