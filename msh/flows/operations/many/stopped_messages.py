"""Messages to partners of which nothing more is sent until an operator acts: those that failed are
submitted again, those that are held are resumed."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from msh.models import (
    HELD,
    Direction,
    Flight,
    History,
    Incident,
    OutboundConversation,
    OutboundMessage,
    OutboundState,
)
from msh.protocol.kinds import IncidentKind
from msh.protocol.vocabulary import ErrorCode
from msh.store.operations.copies import received_before

_EXPIRED = Q(detail__contains=f"{ErrorCode.TIME_TO_LIVE_EXPIRED.value}:")
FAILED_OF: Mapping[str, Q] = {
    IncidentKind.REFUSED_BY_PEER: Q(event="AttemptRefused"),
    IncidentKind.ERROR_RECEIVED: Q(event="ErrorReceived"),
    IncidentKind.MESSAGE_EXPIRED: _EXPIRED,
    IncidentKind.RETRIES_SPENT: Q(event__in=["DeadlinePassed", "Expired"]) & ~_EXPIRED,
}
"""By kind of incident, what the history of a message says that failed for it."""
_CLOCKS = timedelta(seconds=10)
"""An incident has the time of one statement, its history that of the transaction."""


def failed(since: datetime) -> QuerySet[OutboundMessage]:
    """Return the messages that failed since then, in the order of their submission."""
    return _listed(
        OutboundMessage.objects.filter(state=OutboundState.FAILED, forwards=None)
    ).filter(completed_at__gte=since)


def held(since: datetime) -> QuerySet[OutboundMessage]:
    """Return held messages, and failed ones that stop their conversation, of those that were
    submitted since then. Resuming them sends the same bytes with the same number."""
    stopped = OutboundConversation.objects.filter(
        link=OuterRef("link"),
        conversation_id=OuterRef("conversation_id"),
        stopped_by__contains=[OuterRef("message_id")],
    )
    stops = Q(state=OutboundState.FAILED, order_number__isnull=False) & Exists(stopped)
    keys = Flight.objects.filter(state=HELD).values("pk")
    found = OutboundMessage.objects.filter(Q(pk__in=keys) | stops)
    return _listed(found).filter(submitted_at__gte=since)


def _listed(messages: QuerySet[OutboundMessage]) -> QuerySet[OutboundMessage]:
    joined = messages.select_related("link__partner", "agreement", "flight").defer("head")
    return joined.order_by("pk")


def of(
    rows: QuerySet[OutboundMessage], partner: str, conversation: str, incident: int | None
) -> QuerySet[OutboundMessage]:
    """Return the messages to this partner, of this conversation, that failed for this incident."""
    if partner:
        rows = rows.filter(link__partner__name=partner)
    if conversation:
        rows = rows.filter(conversation_id=conversation)
    found = Incident.objects.filter(pk=incident).first() if incident is not None else None
    if found is not None:
        return rows.filter(link__partner=found.partner_id, message_id__in=_failed_for(found))
    return rows if incident is None else rows.none()


def _failed_for(incident: Incident) -> QuerySet[History, str]:
    """MessageIds. Of the partner's history since the incident was opened, which a BRIN index has by
    time."""
    told = History.objects.filter(
        FAILED_OF.get(incident.kind, Q(pk=None)),
        at__gte=incident.opened_at - _CLOCKS,
        partner=incident.partner_id,
        direction=Direction.OUT,
        subject=History.Subject.MESSAGE,
        to_state=OutboundState.FAILED,
    )
    if incident.resolved_at is not None:
        told = told.filter(at__lte=incident.resolved_at)
    return told.order_by().values_list("message_id", flat=True)


def without_copies(rows: QuerySet[OutboundMessage]) -> QuerySet[OutboundMessage]:
    """Return the messages that a job for all of them may submit again. The others have a submitted
    copy, are copies of a message that the partner has, or need a verdict."""
    left = rows.filter(corrected_by=None, order_number=None)
    copies = left.filter(corrects__isnull=False).order_by().values_list("pk", flat=True)
    return left.exclude(pk__in=list(received_before(list(copies))))


def why_not_all(messages: Collection[OutboundMessage]) -> Mapping[int, str]:
    """By key, why a job for many leaves it out unless it is chosen by itself: sentences."""
    keys = [one.pk for one in messages]
    received = received_before(keys)
    found = OutboundMessage.objects.filter(corrects__in=keys)
    copies = {one or 0: named for one, named in found.values_list("corrects", "message_id")}
    return {one.pk: why for one in messages if (why := _why_not(one, copies, received))}


def _why_not(one: OutboundMessage, copies: Mapping[int, str], received: Mapping[int, Any]) -> str:
    if one.state == OutboundState.ACKNOWLEDGED:
        return "The partner has acknowledged it meanwhile."
    if one.pk in copies:
        return f"Message {copies[one.pk]} was already submitted instead."
    if one.pk in received:
        return (
            f"It stands for message {received[one.pk].message_id}, which the partner has"
            " acknowledged since: the partner would get the same content twice."
        )
    if one.state != OutboundState.FAILED:
        return f"It is {one.get_state_display()}."
    if one.holds_up:
        return "It stops its conversation: resume it, or submit it again on its page."
    return ""
