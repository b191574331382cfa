"""Values by which lists are searched beside their own columns."""

from .business_key import BusinessKey, KeyProgress, KeyRule
from .saved_filter import SavedFilter

__all__ = ["BusinessKey", "KeyProgress", "KeyRule", "SavedFilter"]
