"""The model field that several models here share."""

import unicodedata
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from msh.protocol import uri

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"


def check_uri(value: str) -> None:
    """Field validator: refuses what cannot name or address an MSH."""
    try:
        uri.require_usable(value)
    except ValueError as problem:
        raise ValidationError(str(problem), code="uri") from None


def check_visible(text: str) -> None:
    """Field validator: no name has characters that hide, or that turn what stands around it. Those
    that join letters are part of some scripts."""
    hidden = [one for one in text if unicodedata.category(one) in _HIDDEN and one not in _JOINERS]
    if hidden or text != text.strip():
        raise ValidationError("Remove invisible characters.", code="invisible")


def uri_field(verbose_name: str, help_text: str, **options: Any) -> "models.CharField[str, str]":
    """A URI of an MSH. models.URLField knows no mailto: and refuses plain host names."""
    return models.CharField(
        verbose_name,
        max_length=uri.URI_LIMIT,
        validators=[check_uri],
        help_text=help_text,
        **options,
    )


def bounded_field(
    verbose_name: str | None, default: int, bounds: tuple[int, int], help_text: str
) -> "models.PositiveIntegerField[int, int]":
    """A whole number between a smallest and a largest one."""
    smallest, largest = bounds
    return models.PositiveIntegerField(
        verbose_name,
        default=default,
        db_default=default,
        validators=[
            MinValueValidator(smallest, f"Must be {smallest} or more."),
            MaxValueValidator(largest, f"Must be {largest} or less."),
        ],
        help_text=help_text,
    )
