"""The columns that messages of both directions share, and the queries that find them among
millions.

Each condition is one that an index answers. The indexes begin with the link, because that is what
the hot path needs; a condition without a partner names every link, which costs one probe for each.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from hashlib import md5
from typing import Any, ClassVar, Self, TypeVar

from django.db import connections, models
from django.db.models.functions import MD5

from msh.protocol.vocabulary import DeliverySemantics
from partners.models import Agreement

from .blocks import Block, blocks_of

Message = TypeVar("Message", bound=models.Model)

CLOCK_STEP = timedelta(hours=1)
"""Rows come in the order of their time, but for steps of the clock of at most this."""

# Halves the ids until one is left: that of the first row later than a time. Not in the store: it
# is part of a condition of a queryset.
_FIRST_AFTER = """
    WITH RECURSIVE halved (low, high) AS (
        SELECT min(id), max(id) + 1 FROM {table}
        UNION ALL
        SELECT CASE WHEN at > %(time)s THEN low ELSE middle + 1 END,
               CASE WHEN at > %(time)s THEN middle ELSE high END
        FROM (
            SELECT low, high, (low + high) / 2 AS middle,
                   (SELECT {field} FROM {table} WHERE id >= (low + high) / 2
                    ORDER BY id LIMIT 1) AS at
            FROM halved WHERE low < high) probe)
    SELECT low FROM halved WHERE low >= high
"""


def _moved(at: datetime, by: timedelta) -> datetime:
    """Somebody may ask for the first moment that there is, or the last."""
    try:
        return at + by
    except OverflowError:
        return at


def _name(verbose_name: str) -> "models.TextField[str, str]":
    return models.TextField(verbose_name, blank=True, default="", db_default="")


class MessageColumns(models.Model):
    """The columns that messages of both directions share."""

    # No foreign keys in the database to agreement and link: who writes a message has a deletion of
    # either wait, and a trigger refuses to delete what has messages
    # (docs/decisions/2026-11-22-foreign-keys.md).
    agreement = models.ForeignKey(
        "partners.Agreement",
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    message_id = models.CharField("MessageId", max_length=255)
    semantics = models.CharField(
        max_length=16, choices=[(s.value, s.value) for s in DeliverySemantics]
    )
    # As long as they may come to a router; what we submit ourselves is shorter.
    conversation_id = models.TextField("ConversationId")
    service_interface = models.TextField("ServiceInterface")
    action = models.TextField("Action")
    ref_to_message_id = models.TextField("RefToMessageId", blank=True)
    content_digest = models.BinaryField(max_length=32)
    # ebMS 2.0 has them, blank or not; an agreement of ours gives those of what we send.
    from_role = _name("Role of From")
    to_role = _name("Role of To")
    service_type = _name("type of the Service")

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.message_id


class MessageQuerySet(models.QuerySet[Message, Message]):
    """Queries of outbound or inbound messages. Values are compared as a whole: nothing is searched
    within them."""

    time: ClassVar[str]
    """The field in whose order the rows come."""

    def of_partner(self, partner_id: int) -> Self:
        return self.filter(link__in=self._links(partner_id=partner_id))

    def of_partner_named(self, name: str) -> Self:
        return self.filter(link__in=self._links(partner__name=name))

    def with_message_id(self, message_id: str) -> Self:
        return self.filter(link__in=self._links(), message_id=message_id)

    def with_id(self, value: str, keys: Collection[int] = ()) -> Self:
        """`keys`: row ids of messages that are found besides, such as by a business key."""
        by_message_id = models.Q(link__in=self._links(), message_id=value)
        found = by_message_id | self._is_conversation(value)
        return self._with_digest().filter(found | models.Q(pk__in=keys) if keys else found)

    def in_conversation(self, value: str) -> Self:
        return self._with_digest().filter(self._is_conversation(value))

    def _with_digest(self) -> Self:
        return self.alias(block=Block("pk"), conversation_digest=MD5("conversation_id"))

    def _is_conversation(self, value: str) -> models.Q:
        """The condition for a conversation, by its digest, which is indexed: a ConversationId that
        a router forwards has any length."""
        digest = md5(value.encode(), usedforsecurity=False).hexdigest()
        blocks = blocks_of(self.model)
        return models.Q(block__in=blocks, conversation_digest=digest, conversation_id=value)

    def numbered(self, sequence_number: int) -> Self:
        links = self._link_model().objects
        last = links.aggregate(last=models.Max("epoch"))["last"] or 0
        epochs = list(range(1, last + 1))
        return self.filter(
            link__in=self._links(), epoch__in=epochs, sequence_number=sequence_number
        )

    def under_tpa(self, tpa_id: str) -> Self:
        agreements = dict(Agreement.objects.filter(tpa_id=tpa_id).values_list("pk", "partner_id"))
        links = self._links(partner_id__in=agreements.values())
        return self.filter(link__in=links, agreement__in=agreements)

    def in_state(self, state: str) -> Self:
        return self.filter(state=state)

    def since(self, at: datetime) -> Self:
        first = self._first_after(_moved(at, -CLOCK_STEP))
        return self.filter(pk__gte=first, **{f"{self.time}__gte": at})

    def until(self, at: datetime) -> Self:
        end = self._first_after(_moved(at, CLOCK_STEP))
        return self.filter(pk__lt=end, **{f"{self.time}__lte": at})

    def _first_after(self, at: datetime) -> int:
        """The id of the first row later than `at`, or the one after the last row. The planner
        cannot know that rows far back in time are far back among the ids too."""
        table = self.model._meta.db_table  # noqa: SLF001  public
        statement = _FIRST_AFTER.format(table=table, field=self.time)
        with connections[self.db].cursor() as cursor:
            cursor.execute(statement, {"time": at})
            row = cursor.fetchone()
        return row[0] if row and row[0] is not None else 0

    def _links(self, **conditions: object) -> list[int]:
        """Return the ids of all links as a list: the planner then probes the index for each,
        whatever its estimate of the tables' sizes is."""
        links = self._link_model().objects.filter(**conditions)
        return list(links.values_list("pk", flat=True))

    def _link_model(self) -> Any:
        return self.model._meta.get_field("link").related_model  # noqa: SLF001  public


def conversation_index(name: str) -> models.Index:
    """Answers `in_conversation`. Not a hash index: a partner may send all its messages under one
    ConversationId, and each insert would read all index pages of its equals."""
    return models.Index(Block("id"), MD5("conversation_id"), name=name)
