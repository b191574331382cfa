"""How a partner shows us who it is."""

import re
import secrets
from base64 import b64decode
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from urllib.parse import unquote

from django.core.exceptions import ValidationError
from django.db import models

from msh.pem import KeyUnusable, certificates_of


class CredentialKind(models.TextChoices):
    BEARER = "bearer", "Bearer token"
    BASIC = "basic", "Basic: user and password"
    CERTIFICATE = "certificate", "Client certificate"


SECRET_LENGTH = 16
"""Characters of a token, or of the password in user:password, that somebody chose himself."""


def digest_of(secret: str) -> str:
    """SHA-256 of a token, or of "user:password", in hex. Never a slow hash: it runs per POST.

    Secrets of ours have 256 random bits; those that are given have SECRET_LENGTH characters or
    more, and an address may not guess without end (`msh.allowance`).
    """
    return sha256(secret.encode()).hexdigest()


_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_FINGERPRINT = re.compile(r"[0-9A-Fa-f]{2}(?::?[0-9A-Fa-f]{2}){31}")


@lru_cache(maxsize=1024)
def fingerprint_of(certificate: str) -> str:
    """SHA-256 of a certificate, in hex: of one in PEM, also with other white space or %-escapes, as
    proxies write it into a header; or as it is given, with or without colons. Raises ValueError."""
    if _FINGERPRINT.fullmatch(certificate):
        return certificate.replace(":", "").lower()
    text = unquote(certificate).strip()
    if not _PEM.fullmatch(text):
        raise ValueError("is neither a certificate in PEM nor its SHA-256 in hexadecimal digits")
    content = "".join(text.split("-----")[2].split())
    return sha256(b64decode(content, validate=True)).hexdigest()


def certificates_in(text: str) -> list[str]:
    """The certificates in PEM and the fingerprints that a text has, one after another."""
    return [*_PEM.findall(text), *_PEM.sub(" ", text).split()]


def presented(authorization: str) -> tuple[CredentialKind, str] | None:
    """Kind and digest of an Authorization header; None if it is not one of ours."""
    scheme, _, value = authorization.strip().partition(" ")
    value = value.strip()
    match scheme.lower():
        case "bearer":
            return CredentialKind.BEARER, digest_of(value)
        case "basic":
            with suppress(ValueError):  # no Base64, or no UTF-8
                if secret := b64decode(value, validate=True).decode():
                    return CredentialKind.BASIC, digest_of(secret)
    return None


class Credential(models.Model):
    """One secret of a partner, known to us by its SHA-256 only, or one client certificate: then
    that of its DER. Several overlap in a rotation."""

    partner = models.ForeignKey(
        "partners.Partner", on_delete=models.CASCADE, related_name="credentials"
    )
    kind = models.CharField(
        max_length=11, choices=CredentialKind.choices, default=CredentialKind.BEARER
    )
    sha256 = models.CharField("SHA-256", max_length=64, unique=True, editable=False)
    pem = models.TextField(
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="The certificate, if it was given.",
    )
    label = models.CharField(max_length=100, blank=True, help_text="Who uses it, and since when.")
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["created"]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}, {self.label or self.sha256[:8]}"

    def certify(self, text: str) -> None:
        """Make it that of a client certificate in PEM, or with this SHA-256. Raises
        ValidationError, which repeats nothing of it: it may be a key."""
        try:
            is_pem = bool(certificates_of(text)) if "-----" in text else False
            digest = fingerprint_of(text.strip())
        except KeyUnusable as problem:
            raise ValidationError(str(problem)) from None
        except ValueError:
            raise ValidationError(
                "Enter one certificate in PEM, or its SHA-256 in hexadecimal digits."
            ) from None
        self.kind = CredentialKind.CERTIFICATE
        self.sha256, self.pem = digest, text.strip() if is_pem else ""

    def generate(self) -> str:
        """Give this credential a new secret and return it; it cannot be read again.

        Basic: "user:password", the user being the partner's name.
        """
        secret = secrets.token_urlsafe(32)
        if self.kind == CredentialKind.BASIC:
            secret = f"{self.partner.name}:{secret}"
        self.sha256 = digest_of(secret)
        return secret
