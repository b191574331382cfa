"""The status of a link to a partner as text: what it does now, and what happens next."""

from datetime import datetime

from msh.admin.framework.time_format import format_duration, format_time
from msh.flows.operations.inspection.why_not_sent import OVERDUE
from msh.protocol.lane import InFlight, Lane, LaneState

SAFE = ": safe to resume."


def status_text(lane: Lane, now: datetime, oldest: datetime | None = None) -> str:
    """`oldest`: when the first message of the queue was submitted, None if the queue is empty."""
    sentence = _SITUATIONS[lane.state](lane, now)
    if lane.due is not None and now - lane.due > OVERDUE:
        overdue = format_duration(lane.due, now)
        return f"{sentence}. Overdue by {overdue}: check that a worker is running."
    if lane.state is LaneState.IDLE and oldest is not None and now - oldest > OVERDUE:
        age = format_duration(oldest, now)
        return (
            f"{sentence} Nothing polls this link: the first message of its queue has waited for"
            f" {age}. Check that worker and beat are running (dashboard) and that the schedule"
            " entry 'sweep' is enabled."
        )
    return sentence


def _idle(lane: Lane, now: datetime) -> str:
    return f"No message in flight. The next message gets number {lane.next_number}."


def _waiting(lane: Lane, now: datetime) -> str:
    flying = lane.flying
    if lane.unsent:
        copy = _copy(flying, flying.attempt + 1)
        return (
            f"Sending message {flying.sequence_number}, {copy}, due at {format_time(lane.due, now)}"
        )
    left = flying.retries_spent < flying.terms.retries
    return (
        f"Waiting for the Ack of message {flying.sequence_number},"
        f" {_copy(flying, flying.attempt)}, {'next at' if left else 'suspends at'}"
        f" {format_time(lane.due, now)}"
    )


def _transient(lane: Lane, now: datetime) -> str:
    until = format_time(lane.due, now)
    if lane.in_flight is None:
        return f"The partner asked us to wait: nothing is sent before {until}"
    flying = lane.in_flight
    return (
        f"The partner asked us to wait ({flying.transients} of at most"
        f" {flying.terms.transient_count_limit} times): message {flying.sequence_number}"
        f" is sent again at {until}"
    )


def _suspended(lane: Lane, now: datetime) -> str:
    if lane.in_flight is not None:
        return f"Message {lane.in_flight.sequence_number} blocks the queue."
    if lane.late_ack:
        return f"Late acknowledgement received{SAFE}"
    return f"No message in flight{SAFE}"


_SITUATIONS = {
    LaneState.IDLE: _idle,
    LaneState.WAITING: _waiting,
    LaneState.TRANSIENT: _transient,
    LaneState.SUSPENDED: _suspended,
}


def _copy(flying: InFlight, attempt: int) -> str:
    """Which attempt of how many. After attempts that used no retry, and after a resume, the numbers
    of attempts and retries differ."""
    spent, retries = flying.retries_spent, flying.terms.retries
    if attempt == spent + 1:
        return f"attempt {attempt} of {retries + 1}"
    return f"attempt {attempt}, {spent} of {retries} retries used"
