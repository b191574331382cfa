"""Acknowledgements and Error Messages that we send (docs/spec/tables.md, Signals)."""

from collections.abc import Iterable

from django.db import models
from django.db.models import Q

from msh.protocol.vocabulary import ErrorCode
from partners.models import Dialect

from .inbound import InboundMessage
from .link import InboundLink


class SignalKind(models.TextChoices):
    ACKNOWLEDGEMENT = "Acknowledgement"
    ERROR = "Error"
    # About no message of a business, and sent once (EB-147):
    PONG = "Pong"
    STATUS_RESPONSE = "StatusResponse", "StatusResponse"


ABOUT_MESSAGES = (SignalKind.ACKNOWLEDGEMENT, SignalKind.ERROR)
NO_MESSAGE = 0


class SignalQuerySet(models.QuerySet["Signal"]):
    """The index has message, link, kind and code before the MessageId, so all of them are named."""

    def with_ref(self, message_id: str) -> "SignalQuerySet":
        """Without the Acknowledgement of a message that was pruned: only its row id leads to it."""
        links = list(InboundLink.objects.values_list("pk", flat=True))
        received = InboundMessage.objects.with_message_id(message_id)
        return self._with_ref(message_id, received.values_list("pk", flat=True), links)

    def about(self, message: InboundMessage) -> "SignalQuerySet":
        return self._with_ref(message.message_id, [message.pk], [message.link_id])

    def kept_refusals(self) -> "SignalQuerySet":
        """Return the kept Errors of messages that were refused for good: each further copy gets the
        same Error."""
        return self.filter(kind=SignalKind.ERROR, content_digest__isnull=False)

    def _with_ref(
        self, message_id: str, inbound: Iterable[int], links: list[int]
    ) -> "SignalQuerySet":
        codes = ["", *(code.value for code in ErrorCode)]
        return self.filter(
            inbound_id__in=[NO_MESSAGE, *inbound],
            link__in=links,
            kind__in=ABOUT_MESSAGES,
            code__in=codes,
            ref_to_message_id=message_id,
        )


class Signal(models.Model):
    """The signals for one message: `pending` are still to be sent, one per copy that came.

    They have a lane without numbers, never suspend anything and never spend a retry. `body` is the
    one that is being transmitted; when it has been, the next is composed anew (D51), unless it is
    `kept`: then it is composed with the row, and every copy gets the same (EB-110).
    An Error's row is also the record of the message that was refused.
    """

    # No foreign key in the database, as with messages.
    link = models.ForeignKey(
        "InboundLink",
        on_delete=models.PROTECT,
        related_name="signals",
        db_index=False,
        db_constraint=False,
    )
    kind = models.CharField(max_length=15, choices=SignalKind)
    # No foreign key: what an Acknowledgement says stays true without the message.
    inbound_id = models.BigIntegerField(default=NO_MESSAGE, db_default=NO_MESSAGE, editable=False)
    """The row id of the message that an Acknowledgement is for; otherwise NO_MESSAGE. First in the
    index, for MessageIds come in no order (docs/decisions/2026-11-23-blocks.md)."""
    ref_to_message_id = models.CharField("RefToMessageId", max_length=255, blank=True)
    tpa_id = models.TextField("TPAId", blank=True)
    conversation_id = models.TextField("ConversationId", blank=True)
    code = models.CharField(
        max_length=24, blank=True, db_default="", choices=[(c.value, c.value) for c in ErrorCode]
    )
    location = models.TextField(blank=True, db_default="")
    description = models.TextField(blank=True, db_default="")
    min_retry_secs = models.IntegerField(null=True, blank=True)
    sequence_number = models.IntegerField(null=True, blank=True)
    """The number of the refused message, as far as it could be read."""

    first_at = models.DateTimeField()
    pending = models.IntegerField(default=1, db_default=1)
    transmitted = models.IntegerField(default=0, db_default=0)
    due = models.DateTimeField()
    expires_at = models.DateTimeField()
    sending = models.BooleanField(default=False, db_default=False)
    tries = models.IntegerField(default=0, db_default=0)
    content_type = models.TextField(blank=True, db_default="")
    body = models.BinaryField(null=True)
    kept = models.BooleanField(default=False, db_default=False)
    dialect = models.CharField(
        max_length=5, choices=Dialect, default=Dialect.TRP, db_default=Dialect.TRP.value
    )
    content_digest = models.BinaryField(null=True)
    """The digest of a message that is refused for good, by which further copies are recognised."""

    last_status = models.SmallIntegerField(null=True, blank=True)
    last_detail = models.TextField(blank=True, db_default="")

    objects = SignalQuerySet.as_manager()

    class Meta:
        permissions = [
            ("take_back_refusal_signal", "Can have a message judged anew that was refused"),
        ]
        indexes = [
            models.Index(fields=["link", "due"], condition=Q(pending__gt=0), name="signal_pending"),
            # Each message is looked up among those that were refused for good, which are few.
            models.Index(
                fields=["link", "ref_to_message_id"],
                condition=Q(kind="Error", content_digest__isnull=False),
                name="signal_refused",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["inbound_id", "link", "kind", "code", "ref_to_message_id"],
                name="signal_once",
            ),
            models.CheckConstraint(
                condition=~Q(kind="Acknowledgement") | ~Q(inbound_id=NO_MESSAGE),
                name="signal_acknowledges_message",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.ref_to_message_id}"

    @property
    def is_kept_refusal(self) -> bool:
        """Whether `kept_refusals` has it."""
        return self.kind == SignalKind.ERROR and self.content_digest is not None
