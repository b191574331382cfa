"""How a partner shows us who it is."""

import secrets
from base64 import b64decode
from contextlib import suppress
from hashlib import sha256

from django.db import models


class CredentialKind(models.TextChoices):
    BEARER = "bearer", "Bearer token"
    BASIC = "basic", "Basic: user and password"


SECRET_LENGTH = 16
"""Characters of a token, or of the password in user:password, that somebody chose himself."""


def digest_of(secret: str) -> str:
    """SHA-256 of a token, or of "user:password", in hex. Never a slow hash: it runs per POST.

    Secrets of ours have 256 random bits; those that are given have SECRET_LENGTH characters or
    more, and an address may not guess without end (`msh.allowance`).
    """
    return sha256(secret.encode()).hexdigest()


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
    """One secret of a partner, known to us by its SHA-256 only. Several overlap in a rotation."""

    partner = models.ForeignKey(
        "partners.Partner", on_delete=models.CASCADE, related_name="credentials"
    )
    kind = models.CharField(
        max_length=6, choices=CredentialKind.choices, default=CredentialKind.BEARER
    )
    sha256 = models.CharField("SHA-256", max_length=64, unique=True, editable=False)
    label = models.CharField(max_length=100, blank=True, help_text="Who uses it, and since when.")
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["created"]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}, {self.label or self.sha256[:8]}"

    def generate(self) -> str:
        """Give this credential a new secret and return it; it cannot be read again.

        Basic: "user:password", the user being the partner's name.
        """
        secret = secrets.token_urlsafe(32)
        if self.kind == CredentialKind.BASIC:
            secret = f"{self.partner.name}:{secret}"
        self.sha256 = digest_of(secret)
        return secret
