"""Messages for parties behind another MSH: from stored to forwarded (000 §4.1)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from django.db import DatabaseError, transaction
from django.db.models import F
from django.db.models.functions import Now

from msh import wire
from msh.models import InboundMessage, InboundState, OutboundLink, OutboundMessage
from msh.protocol import routing, sequence
from msh.protocol.kinds import IncidentKind, RouteMode
from msh.protocol.lane import LaneState
from msh.protocol.message import Header, Payload
from msh.protocol.message import Route as RoutingHeader
from msh.protocol.received import ReceivedMessage
from msh.protocol.routing import Onward
from msh.store import history, incidents
from msh.store.engine import USE_INDEX_ORDER, Call, Statement, Write, run
from msh.store.history import HistoryRow
from msh.store.sending import message_sql
from msh.store.sending.isolation import describe
from msh.store.sending.submissions import insert_message, use_outbound_link
from partners.models import Agreement, Partner, Route, our_identity

logger = logging.getLogger(__name__)

MARK = Write(
    """
    UPDATE msh_inboundmessage SET state = %(state)s
    WHERE link_id = %(link_id)s AND message_id = %(message_id)s
    """
)


@dataclass(frozen=True, slots=True)
class Due:
    """The head of one pair's messages to be forwarded."""

    id: int
    partner_id: int


# The head of each pair's messages to be forwarded; in `hop` once its Ack was transmitted, or is
# no longer pending because the partner did not take it in time (000 §4.1.1). BestEffort: nothing is
# to be sent. Pairs that have such messages are read by leaps from one to the next.
_FIND_DUE = Statement(
    """
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
          WHERE signal.inbound_id = head.id AND signal.pending > 0 AND signal.transmitted = 0
          OFFSET 0))
    ORDER BY head.id LIMIT %(limit)s
    """,
    Due,
)


class NoNextHop(ValueError):
    """No route leads from here to the To party. `str()` says what to configure."""


@dataclass(frozen=True, slots=True)
class NextHop:
    """The partner to which a message is forwarded, and the agreement for that."""

    route: Route
    agreement: Agreement


def find_next_hop(agreement: Agreement) -> NextHop:
    """The next MSH for messages under `agreement`. Raises NoNextHop."""
    route = Route.objects.of(agreement)
    if route is None:
        raise NoNextHop(f"no route for {agreement.our_party!r}: add it")
    onward = route.agreement_onward(agreement)
    if onward is None:
        raise NoNextHop(
            f"no agreement {agreement.tpa_id!r} between {agreement.their_party!r} and"
            f" {agreement.our_party!r} with partner {route.partner}, to which the route leads"
        )
    return NextHop(route, onward)


def read_next_hop(agreement_id: int, message: ReceivedMessage, now: datetime) -> Onward:
    try:
        hop = find_next_hop(Agreement.objects.get(pk=agreement_id))
        _require_sendable(hop, message, now)
    except ValueError as problem:
        return Onward(RouteMode.HOP, obstacle=str(problem))
    except (DatabaseError, MemoryError):
        raise
    except Exception as problem:
        logger.exception("%s cannot be forwarded", message.header.message_id)
        return Onward(RouteMode.HOP, obstacle=f"cannot be forwarded: {describe(problem)}")
    link = OutboundLink.objects.filter(partner=hop.route.partner).first()
    mode = RouteMode(hop.route.mode)
    if link is None:
        return Onward(mode)
    wait = max(1, round((link.due - now).total_seconds())) if link.due else None
    return Onward(mode, LaneState(link.state), wait)


def _require_sendable(hop: NextHop, message: ReceivedMessage, now: datetime) -> None:
    header, partner = message.header, hop.route.partner
    if why := routing.obstacle(header.routing, partner.our_uri_or_default):
        raise NoNextHop(why)
    if _was_sent(partner.pk, header):
        raise NoNextHop(f"MessageId {header.message_id} was sent to partner {partner} before")
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
    (sent,) = run(message_sql.FIND_SENT(partner_id=partner_id, message_id=header.message_id))
    return bool(sent)


def mark_for_forwarding(link_id: int, message_id: str, withheld: bool) -> Call[None]:
    state = InboundState.WITHHELD if withheld else InboundState.ROUTED
    return MARK(state=state.value, link_id=link_id, message_id=message_id)


def find_due(limit: int) -> list[Due]:
    with transaction.atomic():
        return run(USE_INDEX_ORDER(), _FIND_DUE(limit=limit))[1]


def lock_routed(due: Due) -> InboundMessage | None:
    routed = InboundMessage.objects.filter(
        pk=due.id, state__in=[InboundState.ROUTED, InboundState.WITHHELD]
    )
    return (
        routed.select_related("agreement")
        .select_for_update(skip_locked=True, no_key=True, of=("self",))
        .first()
    )


def forward_message(
    due: Due,
    message: InboundMessage,
    onward: OutboundMessage,
    payloads: Sequence[Payload],
    parts: Sequence[bytes],
) -> None:
    """Queue `onward`, and say of `message` that it is. Needs the caller's transaction.

    Raises NoNextHop if another message with its MessageId was sent to the partner.
    """
    onward.forwards = message
    partner = onward.agreement.partner
    use_outbound_link(partner)
    digests = [sha256(payload.content).digest() for payload in payloads]
    if not insert_message(onward, payloads, parts, digests):
        raise NoNextHop(f"MessageId {onward.message_id} was sent to partner {partner} before")
    withheld = message.state == InboundState.WITHHELD
    after = InboundState.FORWARDING if withheld else InboundState.FORWARDED
    changes = {} if withheld else {"delivered_at": Now()}
    InboundMessage.objects.filter(pk=message.pk).update(state=after, forward_error="", **changes)
    _record(due, message, "MessageSentOn", after, f"to partner {partner}")


def mark_forwarding_failed(
    due: Due, message: InboundMessage, error: str, retry_in: timedelta
) -> None:
    InboundMessage.objects.filter(pk=message.pk).update(
        forward_due=Now() + retry_in,
        forward_failures=F("forward_failures") + 1,
        forward_error=error,
    )
    _record(due, message, "SendingOnFailed", message.state, error)
    kind = IncidentKind.ROUTE_FAILED
    incidents.open_now(due.partner_id, "in", kind, message.message_id, error)


def _record(due: Due, message: InboundMessage, event: str, to_state: str, detail: str) -> None:
    row = HistoryRow(
        due.partner_id,
        "in",
        event,
        message.message_id,
        from_state=message.state,
        to_state=to_state,
        detail=detail,
    )
    history.record(row)
