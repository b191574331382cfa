"""Consumers: the applications that take accepted messages."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from msh.protocol.delivery.events import Policy
from msh.protocol.kinds import OnFailure
from msh.protocol.uri import is_link_local, origin
from partners import secrecy

from . import callables
from .signing import Signed

DAY = 86_400  # seconds


class ConsumerKind(models.TextChoices):
    IN_PROCESS = "in_process", "in-process: called in the transaction that marks it completed"
    HTTP = "http", "HTTP: POST to a URL"
    PULL = "pull", "pull: taken and settled by the application"


def _bounded(
    smallest: int, largest: int, default: int, help_text: str
) -> "models.PositiveIntegerField[int, int]":
    return models.PositiveIntegerField(
        default=default,
        validators=[MinValueValidator(smallest), MaxValueValidator(largest)],
        help_text=help_text,
    )


def check_callable(path: str) -> None:
    try:
        found = callables.load(path)
    except callables.NotAllowed as problem:
        raise ValidationError(str(problem), code="path") from None
    except Exception as problem:  # noqa: BLE001  importing it runs the application's code
        raise ValidationError(
            f"{path} cannot be imported ({problem}). Enter package.module.function.", code="path"
        ) from None
    if not callable(found):
        raise ValidationError(f"{path} is not a function.", code="path")


def why_not_posted_to(url: str) -> str:
    """A sentence, which does not repeat the URL; empty if something can be posted there."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        return "This is not a URL to POST to. Enter https://host/path."
    if "@" in parts.netloc:
        return "The URL contains credentials: enter them in the field of the secret instead."
    if is_link_local(parts.hostname or ""):
        return "The URL has a link-local address, which no other host has."
    return ""


def check_url(url: str) -> None:
    if why := why_not_posted_to(url):
        raise ValidationError(why, code="url")


class Consumer(Signed):
    """The consumer of messages by partner, ServiceInterface and Action. An empty field fits any.

    Of several that fit, the one that says most takes the message: first by partner, then by
    ServiceInterface, then by Action. A message stays with the consumer it was first given to.
    """

    name = models.SlugField(max_length=63, unique=True)
    enabled = models.BooleanField(default=True, help_text="Off: its messages wait.")
    partner = models.ForeignKey(
        "partners.Partner", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    service_interface = models.CharField("ServiceInterface", max_length=255, blank=True)
    action = models.CharField("Action", max_length=255, blank=True)
    kind = models.CharField(max_length=10, choices=ConsumerKind)
    path = models.CharField(
        "dotted path",
        max_length=255,
        blank=True,
        validators=[check_callable],
        help_text="In-process: the function that is called with the InboundMessage.",
    )
    url = models.CharField(
        "address",
        max_length=1000,
        blank=True,
        validators=[check_url],
        help_text="HTTP: the URL that messages are posted to.",
    )
    secret = models.TextField(blank=True, default="", editable=False)
    history = models.BooleanField(
        "document history",
        default=True,
        help_text="Record that a message is being processed before the consumer gets it. Off: if"
        " the outcome is unknown, an HTTP or pull consumer gets the message again.",
    )
    lease = _bounded(
        2, DAY, 300, "Seconds of one attempt. After that, its worker is considered lost."
    )
    attempts = _bounded(1, 1_000_000, 10, "Failed attempts before an operator has to decide.")
    retry_interval = _bounded(0, 7 * DAY, 60, "Seconds from a failed attempt to the next one.")
    on_failure = models.CharField(
        max_length=5,
        choices=[
            (OnFailure.BLOCK.value, "block: the pair waits behind it"),
            (OnFailure.PARK.value, "park: the pair goes on without it"),
        ],
        default=OnFailure.BLOCK.value,
        help_text="What happens after the last failed attempt, or if the outcome is unknown.",
    )
    resolver = models.CharField(
        max_length=255,
        blank=True,
        validators=[check_callable],
        help_text="Dotted path of a function that is called if the outcome is unknown. It gets the"
        " Delivery and returns new, duplicate or in_doubt. HTTP and pull only.",
    )
    fetched_at = models.DateTimeField("last fetched", null=True, blank=True, editable=False)
    """Pull: when its application last asked for messages, to a minute."""

    class Meta:
        ordering = ["name"]
        indexes = [
            # Whether there is one: of each message that is accepted.
            models.Index(
                fields=["id"], condition=Q(enabled=True) & ~Q(kind="pull"), name="consumer_pushes"
            )
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["partner", "service_interface", "action"],
                nulls_distinct=False,
                name="consumer_once",
                violation_error_message=(
                    "Another consumer takes the same messages. Change the filter of one of them."
                ),
            ),
            models.CheckConstraint(
                condition=(Q(kind="in_process", url="") & ~Q(path=""))
                | (Q(kind="http", path="") & ~Q(url=""))
                | Q(kind="pull", path="", url=""),
                name="consumer_place_by_kind",
                violation_error_message="An in-process consumer has a dotted path, an HTTP"
                " consumer a URL, a pull consumer neither.",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        before = Consumer.objects.filter(pk=self.pk).first()
        if before and self.secret and self.secret == before.secret:
            self._refuse_secret_elsewhere(before)
        if self.resolver and self.kind == ConsumerKind.IN_PROCESS:
            raise ValidationError(
                {
                    "resolver": (
                        "Leave this empty: deliveries to an in-process consumer are never in doubt."
                    )
                }
            )

    def _refuse_secret_elsewhere(self, before: "Consumer") -> None:
        """A user who may change an address must not learn the secret by having it sent there."""
        if self.url and origin(self.url) != origin(before.url):
            moved = "Host, port or scheme has changed: enter the authorization again, or none."
            raise ValidationError({"url": moved})

    @property
    def policy(self) -> Policy:
        return Policy(
            doubtful=self.history and self.kind != ConsumerKind.IN_PROCESS,
            lease=self.lease,
            attempts=self.attempts,
            retry_interval=self.retry_interval,
            on_failure=OnFailure(self.on_failure),
            has_resolver=bool(self.resolver),
        )

    @property
    def is_one_transaction(self) -> bool:
        """Nothing is committed before the consumer has run: in-process, without a history."""
        return self.kind == ConsumerKind.IN_PROCESS and not self.history

    def function(self) -> Callable[[Any], object]:
        """The in-process consumer. Raises ImportError, naming the path, if there is none."""
        return callables.load(self.path)

    def show(self, authorization: str) -> None:
        self.secret = secrecy.encrypt(authorization) if authorization else ""

    def authorization(self) -> str:
        """The Authorization header. Raises SecretUnreadableError."""
        return secrecy.decrypt(self.secret) if self.secret else ""
