"""The model field that several models here share."""

import re
import unicodedata
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from msh.protocol import uri
from msh.transport.tls import why_not_shown

_PROXY = re.compile(
    r"http://(?:(?P<user>[^:/@\s]+)(?::(?P<password>[^/@\s]*))?@)?"
    r"(?P<place>(?:\[[0-9A-Fa-f:.]+\]|[^/?#:@\[\]\s]+):[0-9]{1,5})/?"
)

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


class Proxy(NamedTuple):
    """`address`: without the password."""

    address: str
    password: str


def proxy_parts(proxy: str) -> Proxy:
    """Of what `check_proxy` takes; another text is an address without password."""
    if not (match := _PROXY.fullmatch(proxy)):
        return Proxy(proxy, "")
    user = f"{match['user']}@" if match["user"] else ""
    return Proxy(f"http://{user}{match['place']}", match["password"] or "")


def check_proxy(proxy: str) -> None:
    """Field validator. Never repeats what was given: it may have a password."""
    match = _PROXY.fullmatch(proxy)
    if proxy and not (match and 0 < int(match["place"].rpartition(":")[2]) < 65_536):
        text = "Enter http://host:port, or http://user:password@host:port, % for other characters."
        raise ValidationError(text, code="proxy")


def check_client_certificate(name: str) -> None:
    """Field validator: refuses a certificate of ours that cannot be shown."""
    if name and (why := why_not_shown(name)):
        text = f"{why}. Put {name}.pem with the certificate and its key into the folder"
        raise ValidationError(f"{text} MSH_CLIENT_CERTIFICATES.", code="client_certificate")


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
