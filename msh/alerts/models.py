"""Recipients of alerts about incidents, and the alerts."""

from datetime import timedelta
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, validate_email
from django.db import models
from django.db.models import Q

from msh.models.consumer import why_not_posted_to
from msh.models.signing import Signed
from msh.protocol.severity import Severity
from partners import secrecy

from .rules.escalation import Rule
from .rules.quiet import QuietHours, never_end


class Channel(models.TextChoices):
    EMAIL = "email", "Mail"
    WEBHOOK = "webhook", "Webhook"
    SLACK = "slack", "Slack"
    TEAMS = "teams", "Teams"
    PAGERDUTY = "pagerduty", "PagerDuty"


ALL_DAYS = "1234567"
STEPS = 9
PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
_POSTED = (Channel.WEBHOOK, Channel.SLACK, Channel.TEAMS)


def check_days(days: str) -> None:
    if any(day not in ALL_DAYS for day in days) or len(set(days)) != len(days):
        raise ValidationError("Weekdays are digits: 1 is Monday, 7 is Sunday.", code="days")


def check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # KeyError: ZoneInfoNotFoundError
        raise ValidationError(
            f"{name} is not a time zone. Enter a name such as Europe/Amsterdam.", code="zone"
        ) from None


def addresses_of(text: str) -> list[str]:
    return [one for one in text.replace(",", " ").split() if one]


def check_addresses(text: str) -> None:
    for address in addresses_of(text):
        try:
            validate_email(address)
        except ValidationError:
            raise ValidationError(f"{address} is not an e-mail address.", code="address") from None


def shown_host(url: str) -> str:
    """Return the part of an address that is no secret: scheme, host and port."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"[:255] if parts.hostname else ""


class AlertRecipient(Signed):
    """A recipient of alerts: about what, when and how it is called. `rule` is its frozen value.

    `url_secret` is the address that is posted to, `key_secret` the Authorization header of a
    webhook or the routing key of PagerDuty: anybody who knows them can use them.
    """

    name = models.CharField(max_length=100, unique=True)
    enabled = models.BooleanField(
        default=True, help_text="Off: no calls are sent. Those that wait to be sent are dropped."
    )
    channel = models.CharField(max_length=9, choices=Channel)
    addresses = models.TextField(
        "e-mail addresses",
        blank=True,
        validators=[check_addresses],
        help_text="Mail: the addresses, separated by commas or spaces.",
    )
    role = models.ForeignKey(
        "auth.Group",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        help_text="Mail: also every active user with this role who has an e-mail address.",
    )
    url_secret = models.TextField(blank=True, default="", editable=False)
    key_secret = models.TextField(blank=True, default="", editable=False)
    host = models.CharField(max_length=255, blank=True, default="", editable=False)
    """Scheme, host and port of the secret address."""
    at_least = models.CharField(
        "severity",
        max_length=8,
        choices=[
            (Severity.INFO.value, "info, warning and critical"),
            (Severity.WARNING.value, "warning and critical"),
            (Severity.CRITICAL.value, "critical only"),
        ],
        default=Severity.WARNING.value,
        help_text="Critical: messages wait until somebody acts.",
    )
    partners = models.ManyToManyField(
        "partners.Partner",
        blank=True,
        related_name="+",
        help_text="Only incidents of these partners. None selected: all partners.",
    )
    step = models.PositiveSmallIntegerField(
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(STEPS)],
        help_text="Step 1 is called at once. Step 2 is called if nobody is assigned to the"
        " incident after the wait of step 1, and so on. After the last step, the first one is"
        " called again. Each step is called up to 5 times.",
    )
    wait = models.PositiveSmallIntegerField(
        "wait before the next step",
        default=0,
        validators=[MaxValueValidator(1440)],
        help_text="Minutes from this call until the next step is called, up to 1440. 0: this is"
        " the last step.",
    )
    on_end = models.BooleanField(
        "call when resolved",
        default=False,
        help_text="Call again when the incident is resolved. PagerDuty is always notified.",
    )
    quiet_from = models.TimeField(
        "quiet from",
        null=True,
        blank=True,
        help_text=("No calls from this time on (hours and minutes) …"),
    )
    quiet_until = models.TimeField(
        "quiet until",
        null=True,
        blank=True,
        help_text="… until this time; on the next day if it is earlier than the start. Calls that"
        " were held back are sent as one digest.",
    )
    quiet_days = models.CharField(
        "quiet hours begin on",
        max_length=7,
        blank=True,
        default=ALL_DAYS,
        validators=[check_days],
    )
    quiet_all_day = models.CharField(
        "quiet all day on", max_length=7, blank=True, default="", validators=[check_days]
    )
    time_zone = models.CharField(max_length=64, default="UTC", validators=[check_zone])
    critical_through = models.BooleanField(
        "critical calls in quiet hours",
        default=True,
        help_text="Calls about critical incidents are also sent in quiet hours.",
    )

    class Meta:
        app_label = "msh"
        ordering = ["step", "name"]
        verbose_name = "alert recipient"
        verbose_name_plural = "alert recipients"
        constraints = [
            models.CheckConstraint(
                condition=Q(quiet_from=None, quiet_until=None)
                | Q(quiet_from__isnull=False, quiet_until__isnull=False),
                name="alert_recipient_quiet_both",
                violation_error_message="Enter both the beginning and the end of the quiet hours.",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        self._require_address()
        quiet = self.quiet
        if quiet is not None and never_end(quiet):
            raise ValidationError("The quiet hours never end: switch the recipient off instead.")

    def _require_address(self) -> None:
        by_mail = self.channel == Channel.EMAIL
        if by_mail and not (addresses_of(self.addresses) or self.role_id):
            raise ValidationError({"addresses": "Enter an e-mail address, or choose a role."})
        if not by_mail and (self.addresses or self.role_id):
            raise ValidationError(
                {"addresses": ("E-mail addresses and role are for mail only: leave them empty.")}
            )
        if self.channel in _POSTED and not self.url_secret:
            raise ValidationError("Enter the URL to POST to.")
        if self.channel == Channel.PAGERDUTY and not self.key_secret:
            raise ValidationError("Enter the routing key of the PagerDuty service.")

    def post_to(self, url: str) -> None:
        """Set the address. Refuses with ValidationError what cannot be posted to, without showing
        it: the path of a chat's URL is its secret."""
        if url and (why := why_not_posted_to(url)):
            raise ValidationError(why, code="url")
        self.url_secret = secrecy.encrypt(url) if url else ""
        self.host = shown_host(url)

    def show(self, key: str) -> None:
        """Set the Authorization header, or the routing key."""
        self.key_secret = secrecy.encrypt(key) if key else ""

    def url(self) -> str:
        """Return the secret address. Raises SecretUnreadableError, as `key` does."""
        default = PAGERDUTY_URL if self.channel == Channel.PAGERDUTY else ""
        return secrecy.decrypt(self.url_secret) if self.url_secret else default

    def key(self) -> str:
        return secrecy.decrypt(self.key_secret) if self.key_secret else ""

    @property
    def quiet(self) -> QuietHours | None:
        if self.quiet_from is None and not self.quiet_all_day:
            return None
        days, all_day = (frozenset(map(int, one)) for one in (self.quiet_days, self.quiet_all_day))
        return QuietHours(self.time_zone, self.quiet_from, self.quiet_until, days, all_day)

    @property
    def rule(self) -> Rule:
        return Rule(
            self.pk,
            Severity(self.at_least),
            frozenset(partner.pk for partner in self.partners.all()),
            self.step,
            timedelta(minutes=self.wait),
            self.quiet,
            self.critical_through,
        )


class OperatorNotice(models.Model):
    """`cause` names what it is about, once: "incident:7", and "incident:7:2" at its second further
    turn, "late:5:MESSAGE-ID", "over:9" that what notice 9 is about is over. `due` is when it is to
    be sent (again); `sent_at` ends it, and so does `given_up`."""

    cause = models.CharField(max_length=300)
    channel = models.CharField(max_length=9, choices=Channel)
    recipient = models.ForeignKey(
        "AlertRecipient", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    to = models.CharField(max_length=100, blank=True, default="", db_default="")
    """The name of the recipient, who may be gone; empty: whom the settings name."""
    partner = models.ForeignKey("partners.Partner", on_delete=models.CASCADE)
    incident = models.ForeignKey(
        "Incident", on_delete=models.CASCADE, null=True, blank=True, related_name="notices"
    )
    kind = models.CharField(max_length=32)
    severity = models.CharField(
        max_length=8,
        choices=[(one.value, one.name.capitalize()) for one in Severity],
        default=Severity.CRITICAL,
        db_default=Severity.CRITICAL.value,
    )
    message_id = models.CharField("MessageId", max_length=255, blank=True)
    detail = models.TextField(blank=True)
    reason = models.CharField(max_length=20, blank=True, default="", db_default="")
    """A Reason: of the last answer, else of the incident."""
    held = models.BooleanField(default=False, db_default=False)
    """Whether it was held back in quiet hours. It is sent in a digest when they end."""
    is_end = models.BooleanField(default=False, db_default=False)
    """Whether it says that the incident is over."""
    wants_end = models.BooleanField(default=False, db_default=False)
    """Whether its recipient must still be notified of the end of the incident."""
    at = models.DateTimeField()
    due = models.DateTimeField()
    tries = models.PositiveIntegerField(default=0, db_default=0)
    sent_at = models.DateTimeField(null=True, blank=True)
    given_up = models.BooleanField(default=False, db_default=False)
    error = models.TextField(blank=True, default="", db_default="")

    class Meta:
        app_label = "msh"
        ordering = ["-id"]
        verbose_name = "alert"
        indexes = [
            models.Index(
                fields=["given_up", "due"], condition=Q(sent_at=None), name="operator_notice_unsent"
            ),
            models.Index(
                fields=["id"], condition=Q(wants_end=True), name="operator_notice_wants_end"
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["cause", "channel", "to"], name="operator_notice_once"),
        ]

    def __str__(self) -> str:
        return f"{self.channel} of {self.cause}"
