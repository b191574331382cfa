"""Messages for parties behind another MSH: from stored to sent on (000 §4.1)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import DatabaseError, transaction
from django.db.models import F
from django.db.models.functions import Now

from msh import wire
from msh.models import (
    History,
    InboundMessage,
    InboundState,
    OutboundLink,
    OutboundMessage,
    hot,
)
from msh.protocol import routing, sequence
from msh.protocol.effects import IncidentKind
from msh.protocol.lane import LaneState
from msh.protocol.message import Header, Payload, ReceivedMessage
from msh.protocol.message import Route as RoutingHeader
from msh.protocol.routing import Onward, RouteMode
from partners.models import Agreement, Partner, Route, our_identity

from .isolated import describe
from .outbound import submitted, use_outbound_link

logger = logging.getLogger(__name__)

SEND_ON = "UPDATE msh_inboundmessage SET state = %s WHERE link_id = %s AND message_id = %s"

# The head of each pair's messages to be sent on; in `hop` once its Ack was carried, or is owed no
# more because the partner did not take it in time (000 §4.1.1). BestEffort: nothing is owed.
# Pairs that have such messages are read by leaps from one to the next.
_DUE = """
    WITH RECURSIVE head (link_id, id, message_id, state, forward_due) AS (
        (SELECT link_id, id, message_id, state, forward_due FROM msh_inboundmessage
         WHERE state IN ('routed', 'withheld') ORDER BY link_id, id LIMIT 1)
        UNION ALL
        SELECT next.* FROM head CROSS JOIN LATERAL (
            SELECT link_id, id, message_id, state, forward_due FROM msh_inboundmessage
            WHERE state IN ('routed', 'withheld') AND link_id > head.link_id
            ORDER BY link_id, id LIMIT 1) next)
    SELECT head.id, (SELECT partner_id FROM msh_inboundlink WHERE id = head.link_id) AS partner_id
    FROM head
    WHERE (head.forward_due IS NULL OR head.forward_due <= statement_timestamp())
      AND (head.state = 'withheld' OR NOT EXISTS (
          SELECT FROM msh_signal signal
          WHERE signal.link_id = head.link_id AND signal.kind = 'Acknowledgement'
            AND signal.code = '' AND signal.ref_to_message_id = head.message_id
            AND signal.owed > 0 AND signal.carried = 0
          OFFSET 0))
    ORDER BY head.id LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Due:
    """The head of one pair's messages to be sent on."""

    key: int
    partner_id: int


class NoWayOnward(ValueError):
    """There is no way from here to the To party. `str()` says what to configure."""


@dataclass(frozen=True, slots=True)
class Way:
    """Where a message is sent on, and under which agreement."""

    route: Route
    agreement: Agreement


def way_onward(agreement: Agreement) -> Way:
    """The way of the messages that come under `agreement`. Raises NoWayOnward."""
    route = Route.objects.of(agreement)
    if route is None:
        raise NoWayOnward(f"no route for {agreement.our_party!r}: add it")
    onward = route.agreement_onward(agreement)
    if onward is None:
        raise NoWayOnward(
            f"no agreement {agreement.tpa_id!r} between {agreement.their_party!r} and"
            f" {agreement.our_party!r} with partner {route.partner}, to which the route leads"
        )
    return Way(route, onward)


def onward_of(agreement_id: int, message: ReceivedMessage, now: datetime) -> Onward:
    """What the Receiver's decision needs to know of the way of a message that has just come."""
    try:
        way = way_onward(Agreement.objects.get(pk=agreement_id))
        _require_sendable(way, message, now)
    except ValueError as problem:
        return Onward(RouteMode.HOP, obstacle=str(problem))
    except (DatabaseError, MemoryError):
        raise
    except Exception as problem:
        logger.exception("%s cannot be sent on", message.header.message_id)
        return Onward(RouteMode.HOP, obstacle=f"cannot be sent on: {describe(problem)}")
    link = OutboundLink.objects.filter(partner=way.route.partner).first()
    mode = RouteMode(way.route.mode)
    if link is None:
        return Onward(mode)
    wait = max(1, round((link.due - now).total_seconds())) if link.due else None
    return Onward(mode, LaneState(link.state), wait)


def _require_sendable(way: Way, message: ReceivedMessage, now: datetime) -> None:
    header, partner = message.header, way.route.partner
    if why := routing.obstacle(header.routing, partner.our_uri_or_default):
        raise NoWayOnward(why)
    if _was_sent(partner.pk, header):
        raise NoWayOnward(f"MessageId {header.message_id} was sent to partner {partner} before")
    wire.check_names(message.payloads)
    boundary = wire.new_boundary()
    trial = _longest_route(partner, header, now)
    wire.compose_routed_head(message.header_document, trial, boundary, closing=False)


def _longest_route(partner: Partner, header: Header, now: datetime) -> RoutingHeader:
    """The RoutingHeader that the message will get, with the longest number it may have."""
    ours = partner.our_uri_or_default
    number = sequence.LAST if header.reliable else None
    return RoutingHeader(ours, partner.uri, our_identity().error_uri_for(ours), now, number)


def _was_sent(partner_id: int, header: Header) -> bool:
    (sent,) = hot.run((hot.FIND_SENT_MESSAGE, (partner_id, header.message_id)))
    return bool(sent)


def send_on(link_id: int, message_id: str, *, withheld: bool) -> hot.Statement:
    """The message accepted in this transaction is to be sent on, not to be delivered."""
    state = InboundState.WITHHELD if withheld else InboundState.ROUTED
    return SEND_ON, (state.value, link_id, message_id)


def due_forwards(limit: int) -> list[Due]:
    """The head of every pair that may be sent on now, so that the order of the pair stays."""
    with transaction.atomic():
        _, rows = hot.run((hot.BY_INDEX, ()), (_DUE, (limit,)))
    return [Due(row.id, row.partner_id) for row in rows]


def lock_routed(due: Due) -> InboundMessage | None:
    """Lock the message; None if another worker holds it or has sent it on."""
    routed = InboundMessage.objects.filter(
        pk=due.key, state__in=[InboundState.ROUTED, InboundState.WITHHELD]
    )
    return (
        routed.select_related("agreement")
        .select_for_update(skip_locked=True, no_key=True, of=("self",))
        .first()
    )


def sent_on(
    due: Due,
    message: InboundMessage,
    onward: OutboundMessage,
    payloads: Sequence[Payload],
    parts: Sequence[bytes],
) -> None:
    """Queue `onward`, and say of `message` that it is. Needs the caller's transaction.

    Raises NoWayOnward if another message with its MessageId was sent to the partner.
    """
    onward.relays = message
    partner = onward.agreement.partner
    use_outbound_link(partner)
    if not submitted(onward, payloads, parts):
        raise NoWayOnward(f"MessageId {onward.message_id} was sent to partner {partner} before")
    withheld = message.state == InboundState.WITHHELD
    after = InboundState.RELAYING if withheld else InboundState.RELAYED
    changes = {} if withheld else {"delivered_at": Now()}
    InboundMessage.objects.filter(pk=message.pk).update(state=after, forward_error="", **changes)
    _record(due, message, "MessageSentOn", after, f"to partner {partner}")


def send_on_failed(due: Due, message: InboundMessage, error: str, retry_in: timedelta) -> None:
    """It stays at the head of its pair, an operator is called, and it is tried again."""
    InboundMessage.objects.filter(pk=message.pk).update(
        forward_due=Now() + retry_in,
        forward_failures=F("forward_failures") + 1,
        forward_error=error,
    )
    _record(due, message, "SendingOnFailed", message.state, error)
    (clock,) = hot.run((hot.CLOCK, ()))
    what = (due.partner_id, "in", IncidentKind.ROUTE_FAILED, message.message_id, error)
    hot.run((hot.OPEN_INCIDENT, (*what, clock[0].now, clock[0].now)))


def _record(due: Due, message: InboundMessage, event: str, to_state: str, detail: str) -> None:
    History.objects.create(
        partner_id=due.partner_id,
        direction="in",
        subject="message",
        message_id=message.message_id,
        event=event,
        from_state=message.state,
        to_state=to_state,
        detail=detail,
    )
