"""What a lane does, why it is suspended, how long ago: in words an operator reads at night."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from msh.flows.advance import OPERATOR
from msh.protocol.effects import IncidentKind
from msh.protocol.lane import InFlight, Lane, LaneState

OVERDUE = timedelta(seconds=15)
"""Beyond this, what is due should have happened: the sweep looks every second."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What has happened, and what helps."""

    what: str
    advice: str


CAUSES: dict[str, Cause] = {
    OPERATOR: Cause(
        "Suspended by an operator",
        "Resume when the reason that was given is over.",
    ),
    IncidentKind.RETRIES_SPENT: Cause(
        "Every retry is spent",
        "Find out whether the partner's MSH is up, then resume. It discards the copy and"
        " acknowledges again if it has stored the message already.",
    ),
    IncidentKind.REFUSED_BY_PEER: Cause(
        "The message was refused for good",
        "The same bytes are refused again until what the last error names is mended, here or at"
        " the partner. Then resume.",
    ),
    IncidentKind.TRANSIENT_LIMIT: Cause(
        "The partner asked us to wait too often or for too long",
        "Ask the partner when it takes messages again, then resume.",
    ),
    IncidentKind.RESYNCHRONISE: Cause(
        "The partner's SequenceNumbers and ours have parted",
        "Sending again does not help while they differ. Compare our next number with the last"
        " number and MessageId that the partner accepted.",
    ),
    IncidentKind.ERROR_RECEIVED: Cause(
        "The partner answered with an Error",
        "Ask the partner what is wrong with the message. Resuming sends the same bytes again.",
    ),
    IncidentKind.SEQUENCE_GAP: Cause(
        "A message came, but not those before it",
        "Nothing was stored. The partner was told which numbers are missing and has to send them.",
    ),
    IncidentKind.SEQUENCE_STALE: Cause(
        "An unknown message came under an old number",
        "Nothing was stored. Compare our last number and MessageId with the partner's counter.",
    ),
    IncidentKind.SEQUENCE_CONFLICT: Cause(
        "Another message came under the last number accepted",
        "Nothing was stored. The partner may have been restored from a backup: compare its"
        " counter with our last number and MessageId.",
    ),
    IncidentKind.MESSAGE_ID_REUSED: Cause(
        "A known MessageId came with other content",
        "Nothing was stored. The partner has to send the changed message under its own MessageId.",
    ),
    IncidentKind.RESET_HELD: Cause(
        "The partner started again with number 1 and is held",
        "Ask the partner whether it reset its counter.",
    ),
    IncidentKind.STORE_SHORT: Cause(
        "There is no room for new messages",
        "Partners are told to wait. Make room on the disk or raise the limit: it is resolved by"
        " itself when messages come in again.",
    ),
    IncidentKind.BACKLOG: Cause(
        "The application does not keep up with this partner",
        "The partner is told to wait. Look at what the consumer does: it is resolved by itself when"
        " messages come in again.",
    ),
    IncidentKind.STUCK: Cause(
        "Nothing moves on this link, although there is work",
        "What the detail names is mended there: resume the link, deliver again, switch the consumer"
        " on or start it. Else see whether worker and beat run. It is resolved by itself when"
        " something moves; resolved by you, it is told again if nothing does.",
    ),
    IncidentKind.DELIVERY_FAILED: Cause(
        "The application does not take a message",
        "Its attempts are spent. Look at the delivery's last error and mend it at the application."
        " Then have the delivery run again, or decide otherwise.",
    ),
    IncidentKind.DELIVERY_REJECTED: Cause(
        "The application rejected a message",
        "A business error: the message is kept and not run again. Settle it with the partner, then"
        " resolve this; or have the delivery run again after all.",
    ),
    IncidentKind.DELIVERY_IN_DOUBT: Cause(
        "Nobody knows whether the application has a message",
        "A worker died while the application had it. Look there for the MessageId, which was sent"
        " as Idempotency-Key. Then mark the delivery completed, or have it run again.",
    ),
    IncidentKind.NO_CONSUMER: Cause(
        "No consumer takes a message",
        "It waits, and its pair behind it. Add a consumer for its partner, ServiceInterface and"
        " Action: it is resolved by itself then.",
    ),
    IncidentKind.ROUTE_FAILED: Cause(
        "A message cannot be sent on to the next MSH",
        "Look at the route of its To party and at the agreement with the partner it leads to. What"
        " was stored is tried again by itself; what was refused, its sender has to resume.",
    ),
    IncidentKind.PROCESSING_FAILED: Cause(
        "A message or a signal could not be processed",
        "The detail names the error: a row that cannot be read, or a defect of this MSH, whose log"
        " has the traceback. Nothing else is held up by it. When it is mended, resume the link, or"
        " cancel the message.",
    ),
    IncidentKind.RETENTION_TOO_SHORT: Cause(
        "MessageIds of a partner are kept for longer than is configured",
        "A copy may come for so long under its agreement that MSH_KEEP_MESSAGES is too short: only"
        " its MessageIds are kept for longer, all else goes when it is time. Set it higher, or"
        " shorten the agreement's retries: it is resolved by itself in the next night.",
    ),
}


def situation(lane: Lane, now: datetime) -> str:
    """What the lane does now, and what happens next."""
    sentence = _SITUATIONS[lane.state](lane, now)
    if lane.due is not None and now - lane.due > OVERDUE:
        return f"{sentence}. That was {span(lane.due, now)} ago: does a worker run?"
    return sentence


def _idle(lane: Lane, now: datetime) -> str:
    return f"Nothing in flight. The next message gets number {lane.next_number}."


def _waiting(lane: Lane, now: datetime) -> str:
    flying = lane.flying
    if lane.unsent:
        copy = _copy(flying, flying.attempt + 1)
        return f"Sending message {flying.sequence_number}, {copy}, due at {moment(lane.due, now)}"
    left = flying.retries_spent < flying.terms.retries
    return (
        f"Waiting for the Ack of message {flying.sequence_number},"
        f" {_copy(flying, flying.attempt)}, {'next at' if left else 'suspends at'}"
        f" {moment(lane.due, now)}"
    )


def _transient(lane: Lane, now: datetime) -> str:
    until = moment(lane.due, now)
    if lane.in_flight is None:
        return f"The partner asked us to wait: nothing is sent before {until}"
    flying = lane.in_flight
    return (
        f"The partner asked us to wait ({flying.transients} of at most"
        f" {flying.terms.transient_count_limit} times): message {flying.sequence_number}"
        f" goes again at {until}"
    )


def _suspended(lane: Lane, now: datetime) -> str:
    if lane.in_flight is not None:
        return f"Message {lane.in_flight.sequence_number} blocks everything behind it."
    if lane.late_ack:
        return "Late acknowledgement received: safe to resume."
    return "Nothing is in flight: safe to resume."


_SITUATIONS = {
    LaneState.IDLE: _idle,
    LaneState.WAITING: _waiting,
    LaneState.TRANSIENT: _transient,
    LaneState.SUSPENDED: _suspended,
}


def _copy(flying: InFlight, attempt: int) -> str:
    """Which copy of how many. Copies that spent no retry, and a resume, end that simple count."""
    spent, retries = flying.retries_spent, flying.terms.retries
    if attempt == spent + 1:
        return f"attempt {attempt} of {retries + 1}"
    return f"attempt {attempt}, {spent} of {retries} retries spent"


def moment(at: datetime | None, now: datetime) -> str:
    """The time with its zone, and the date if it is not today's."""
    if at is None:
        return "an unknown time"
    local = timezone.localtime(at)
    form = "%H:%M:%S %Z" if local.date() == timezone.localdate(now) else "%Y-%m-%d %H:%M:%S %Z"
    return local.strftime(form)


def span(since: datetime, until: datetime) -> str:
    """How long, in its two largest units: "3 h 12 min"."""
    seconds = max(int((until - since).total_seconds()), 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds} s"


def seconds(count: int) -> str:
    """A wait of an agreement: "90 s", "2 h"."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if count >= 2 * length and count % length == 0:
            return f"{count // length} {unit}"
    return f"{count} s"
