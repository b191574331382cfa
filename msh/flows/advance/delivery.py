"""Accepted messages from ACCEPTED to DELIVERED, in the order of their pair."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F
from django.db.models.functions import Now

from msh.models import History, InboundMessage, InboundState, hot
from msh.protocol.effects import IncidentKind

ALARM_AFTER = 5
"""Failed deliveries of one message after which an operator is called."""


@dataclass(frozen=True, slots=True)
class Due:
    """The head of one pair's undelivered messages."""

    key: int
    partner_id: int


_DUE = """
    SELECT head.id, link.partner_id
    FROM msh_inboundlink link
    CROSS JOIN LATERAL (
        SELECT id, delivery_due FROM msh_inboundmessage
        WHERE link_id = link.id AND state = 'accepted' ORDER BY id LIMIT 1) head
    WHERE head.delivery_due IS NULL OR head.delivery_due <= statement_timestamp()
    ORDER BY head.id LIMIT %s
"""


def due_deliveries(limit: int) -> list[Due]:
    """The head of every pair that may be delivered now: a failed head stays head (001-23)."""
    (rows,) = hot.run((_DUE, (limit,)))
    return [Due(row.id, row.partner_id) for row in rows]


def lock_head(due: Due) -> InboundMessage | None:
    """Lock the message; None if another worker holds it or has delivered it."""
    undelivered = InboundMessage.objects.filter(pk=due.key, state=InboundState.ACCEPTED)
    return undelivered.select_for_update(skip_locked=True, no_key=True).first()


def delivered(due: Due, message: InboundMessage) -> None:
    """In the consumer's transaction: its effects and this are one (D40)."""
    InboundMessage.objects.filter(pk=message.pk).update(
        state=InboundState.DELIVERED, delivered_at=Now(), delivery_error=""
    )
    _record(due, message, "MessageDelivered", to_state=InboundState.DELIVERED)


def delivery_failed(due: Due, message: InboundMessage, error: str, retry_in: timedelta) -> None:
    """The consumer raised: the message stays at the head of its pair and is tried again."""
    InboundMessage.objects.filter(pk=message.pk).update(
        delivery_due=Now() + retry_in,
        delivery_failures=F("delivery_failures") + 1,
        delivery_error=error,
    )
    _record(due, message, "DeliveryFailed", to_state=InboundState.ACCEPTED, detail=error)
    if message.delivery_failures + 1 >= ALARM_AFTER:
        (clock,) = hot.run((hot.CLOCK, ()))
        what = (due.partner_id, "in", IncidentKind.DELIVERY_FAILED, message.message_id, error)
        hot.run((hot.OPEN_INCIDENT, (*what, clock[0].now, clock[0].now)))


def _record(
    due: Due, message: InboundMessage, event: str, *, to_state: str, detail: str = ""
) -> None:
    History.objects.create(
        partner_id=due.partner_id,
        direction="in",
        subject="message",
        message_id=message.message_id,
        event=event,
        from_state=InboundState.ACCEPTED,
        to_state=to_state,
        detail=detail,
    )
