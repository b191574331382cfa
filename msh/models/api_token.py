"""Tokens of the REST API, for applications and Spark jobs."""

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from partners.models import digest_of
from partners.models.networks import check_networks, is_in, networks_of

USE_NOTED_EVERY = timedelta(minutes=1)
CLOSE = timedelta(days=14)
"""Before its end, and after it, a token is shown to whoever can make another one."""


class Scope(models.TextChoices):
    SEND = "send", "submit messages"
    READ = "read", "read messages, their history and the feed"
    READ_PAYLOAD = "read_payload", "read payloads"
    CONSUME = "consume", "take and settle messages as a pull consumer"
    OPERATE = "operate", "operators' actions, as far as its user has the permissions"


PERMISSIONS: dict[str, frozenset[str]] = {
    Scope.SEND: frozenset({"submit_outboundmessage"}),
    Scope.READ: frozenset({"view_outboundmessage", "view_inboundmessage"}),
    Scope.READ_PAYLOAD: frozenset(
        {
            *("view_outboundmessage", "view_payload_outboundmessage"),
            *("view_inboundmessage", "view_payload_inboundmessage"),
        }
    ),
    Scope.CONSUME: frozenset({"take_delivery"}),
    Scope.OPERATE: frozenset(),  # each action asks for its own
}
"""The permissions of the app msh that the token's user needs for each scope."""


def missing_permissions(user: Any, scopes: Iterable[str]) -> list[str]:
    """Return the permissions that this user lacks for a token with these scopes."""
    needed = {f"msh.{name}" for scope in scopes for name in PERMISSIONS.get(scope, ())}
    return sorted(name for name in needed if not user.has_perm(name))


def is_machine(user: Any) -> bool:
    """A user that applications act as: it has no password, and the console is closed to it."""
    return not (user.is_staff or user.is_superuser or user.has_usable_password())


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def expiring(self, now: datetime) -> "ApiTokenQuerySet":
        return self.filter(expires__gt=now - CLOSE, expires__lt=now + CLOSE).order_by("expires")


class ApiToken(models.Model):
    """One token, known to us by its SHA-256 only. What is done with it, its user did.

    It gives what its scopes name and its user may do, never more. With the scope `consume` it
    takes and settles the deliveries of its `consumers`. With `partners` it meets nothing of others.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    name = models.SlugField(max_length=63, unique=True, help_text="Who uses the token.")
    sha256 = models.CharField("SHA-256", max_length=64, unique=True, editable=False)
    scopes = ArrayField(models.CharField(max_length=12, choices=Scope.choices))
    consumers: "models.ManyToManyField[Any, Any]" = models.ManyToManyField(
        "Consumer",
        blank=True,
        related_name="api_tokens",
        limit_choices_to={"kind": "pull"},
        help_text="For the scope consume: the consumers whose messages it may take and settle.",
    )
    partners: "models.ManyToManyField[Any, Any]" = models.ManyToManyField(
        "partners.Partner",
        blank=True,
        related_name="+",
        help_text="Only what is of these partners exists for the token. None selected: all.",
    )
    expires = models.DateTimeField(
        null=True,
        blank=True,
        help_text=("The token is refused from then on. Empty: it never expires."),
    )
    networks = models.TextField(
        blank=True,
        default="",
        db_default="",
        validators=[check_networks],
        help_text=(
            "The token is accepted only from these networks, such as 192.0.2.0/24. Empty: any."
        ),
    )
    created = models.DateTimeField(auto_now_add=True)
    last_used = models.DateTimeField(null=True, editable=False)
    """To the minute or so: not every request writes it."""

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        verbose_name = "API token"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def lacks(self, scope: str) -> list[str]:
        """The permissions that its user lacks for a scope. Read it by `find_token`."""
        if self.user.is_superuser:
            return []
        granted = vars(self)["permissions"]
        return sorted(f"msh.{name}" for name in PERMISSIONS[scope].difference(granted))

    def why_refused(self, address: str, now: datetime) -> str:
        """Why it is not accepted from there now, as a sentence; empty if it is."""
        if self.expires is not None and now >= self.expires:
            return (
                f"Token {self} expired at {self.expires:%Y-%m-%d %H:%M} UTC: ask an administrator"
                " for a new one."
            )
        networks = networks_of(self.networks)
        if networks and not is_in(address, networks):
            return f"Token {self} is not accepted from your address {address}."
        return ""

    def generate(self) -> str:
        """Give this row a new secret and return it; it cannot be read again."""
        secret = secrets.token_urlsafe(32)
        self.sha256 = digest_of(secret)
        return secret
