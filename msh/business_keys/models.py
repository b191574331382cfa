"""Business keys: values of payloads, such as the number of an invoice, by which messages are found.

A rule says where the value stands. The values are indexed after a message is stored, by a job:
`msh/business_keys/flows/index_keys.py`.
"""

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from msh.protocol.business_keys import PATH_LIMIT, VALUE_LIMIT

RULES_LIMIT = 20
"""Rules of an installation: each is evaluated on each payload of its documents."""
FOUND_LIMIT = 1000
"""Messages that one value finds, the newest: what all messages have in common is no key."""


class KeyRule(models.Model):
    """The location of a business key in documents of one kind. A blank field fits any.

    `inbound_before`, `outbound_before`: messages with a lower row id are still to be indexed; None
    until the job has seen the rule.
    """

    name = models.SlugField(max_length=63, help_text="The name of the value, such as invoice.")
    enabled = models.BooleanField(
        default=True, help_text="Off: nothing is indexed, and the indexed values are removed."
    )
    agreement = models.ForeignKey(
        "partners.Agreement", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    service_interface = models.CharField("ServiceInterface", max_length=255, blank=True)
    action = models.CharField("Action", max_length=255, blank=True)
    path = models.CharField(
        "XPath",
        max_length=PATH_LIMIT,
        help_text="Where the value is, such as /inv:Invoice/cbc:ID or //o:Order/@id.",
    )
    namespaces = models.TextField(
        blank=True, max_length=2000, help_text="One line prefix=URI for each prefix in the XPath."
    )
    inbound_before = models.BigIntegerField(null=True, editable=False)
    outbound_before = models.BigIntegerField(null=True, editable=False)

    class Meta:
        app_label = "msh"
        verbose_name = "business key"
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self._state.adding and KeyRule.objects.count() >= RULES_LIMIT:
            raise ValidationError(
                f"There are already {RULES_LIMIT} business keys: delete one first."
            )

    @property
    def is_indexed(self) -> bool:
        """Whether what was stored before the rule is indexed, too."""
        return self.inbound_before == 0 == self.outbound_before


class BusinessKeyQuerySet(models.QuerySet["BusinessKey"]):
    def messages(self, value: str, direction: str) -> list[int]:
        """Return row ids of the newest messages with this value. A list: see `MessageQuerySet`."""
        found = self.filter(value=value, rule__enabled=True, **{f"{direction}__isnull": False})
        newest = found.order_by("-id").values_list(direction, flat=True)[:FOUND_LIMIT]
        return sorted(set(newest))

    def beginning(self, value: str, direction: str) -> list[int]:
        """Row ids of some messages with a value that begins so, FOUND_LIMIT at most."""
        found = self.filter(rule__enabled=True, **{f"{direction}__isnull": False})
        begin = found.filter(value__startswith=value).order_by()
        return sorted(set(begin.values_list(direction, flat=True)[:FOUND_LIMIT]))


class BusinessKey(models.Model):
    """One value of one message."""

    rule = models.ForeignKey(KeyRule, on_delete=models.PROTECT, related_name="+")
    # No foreign keys in the database, as payloads have none: only retention deletes messages.
    inbound = models.ForeignKey(
        "InboundMessage",
        on_delete=models.CASCADE,
        null=True,
        related_name="business_keys",
        db_index=False,
        db_constraint=False,
    )
    outbound = models.ForeignKey(
        "OutboundMessage",
        on_delete=models.CASCADE,
        null=True,
        related_name="business_keys",
        db_index=False,
        db_constraint=False,
    )
    value = models.CharField(max_length=VALUE_LIMIT)

    objects = BusinessKeyQuerySet.as_manager()

    class Meta:
        app_label = "msh"
        default_permissions = ()
        ordering = ["id"]
        indexes = [
            # By these classes it also serves what begins with a value, in any collation.
            models.Index(
                fields=["value", "id"],
                opclasses=["varchar_pattern_ops", "int8_ops"],
                name="business_key_value",
            )
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["inbound", "rule", "value"],
                condition=Q(inbound__isnull=False),
                name="business_key_inbound_once",
            ),
            models.UniqueConstraint(
                fields=["outbound", "rule", "value"],
                condition=Q(outbound__isnull=False),
                name="business_key_outbound_once",
            ),
            models.CheckConstraint(
                condition=Q(inbound=None, outbound__isnull=False)
                | Q(inbound__isnull=False, outbound=None),
                name="business_key_of_one_message",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rule} {self.value}"


class KeyProgress(models.Model):
    """How far the job is with the messages of one direction: up to the row id `seen`, but for
    `gaps`, ids of transactions that may still commit: [first, last, xid, seconds of the epoch]."""

    direction = models.CharField(max_length=8, primary_key=True)
    seen = models.BigIntegerField()
    gaps = models.JSONField(default=list)

    class Meta:
        app_label = "msh"
        default_permissions = ()

    def __str__(self) -> str:
        return self.direction
