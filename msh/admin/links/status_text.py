"""The status of a link to a partner as text: what it does now, and what happens next."""

from datetime import datetime

from msh.admin.framework.time_format import format_duration, format_time
from msh.flows.operations.inspection.why_not_sent import OVERDUE
from msh.protocol.attempt import AttemptOutcome
from msh.protocol.lane import InFlight, Lane, LaneState


def state_words(lane: Lane, now: datetime, ended: str = "") -> str:
    """The state: what is waited for, and until when. `ended`: as in `status_text`."""
    until = format_time(lane.due, now) if lane.due else ""
    if lane.state is LaneState.TRANSIENT:
        return f"asked to wait until {until}"
    if lane.state is not LaneState.WAITING:
        return lane.state.value
    if lane.unsent or not ended:
        return "sending"
    if ended == AttemptOutcome.TRANSMITTED:
        return f"waiting for the Acknowledgement until {until}"
    if _left(lane.flying):
        return f"waiting for the retry at {until}"
    return f"no retry left, suspends at {until}"


def status_text(
    lane: Lane,
    now: datetime,
    oldest: datetime | None = None,
    ended: str = "",
    *,
    is_safe: bool = True,
) -> str:
    """`oldest`: when the first message of the queue was submitted, None if the queue is empty.
    `ended`: the outcome of the last attempt of the message in flight, empty while it is in
    progress. `is_safe`: to resume it, if nothing is in flight."""
    if lane.state is LaneState.SUSPENDED:
        return _suspended(lane, ": safe to resume." if is_safe else ".")
    situation = _SITUATIONS[lane.state]
    waits = lane.state is LaneState.WAITING and not lane.unsent
    sentence = _waiting(lane, now, ended) if waits else situation(lane, now)
    if lane.due is not None and now - lane.due > OVERDUE:
        overdue = format_duration(lane.due, now)
        return f"{sentence}. Overdue by {overdue}: check that a worker is running."
    if lane.state is LaneState.IDLE and oldest is not None and now - oldest > OVERDUE:
        age = format_duration(oldest, now)
        return (
            f"{sentence} Nothing polls this link: the first message of its queue has waited for"
            f" {age}. Check that a worker is running (dashboard)."
        )
    return sentence


def _idle(lane: Lane, now: datetime) -> str:
    return f"No message in flight. The next message gets number {lane.next_number}."


def _unsent(lane: Lane, now: datetime) -> str:
    flying = lane.flying
    copy = _copy(flying, lane.attempt_to_send)
    return f"Sending message {flying.sequence_number}, {copy}, due at {format_time(lane.due, now)}"


def _waiting(lane: Lane, now: datetime, ended: str) -> str:
    flying, until = lane.flying, format_time(lane.due, now)
    number, copy = flying.sequence_number, _copy(flying, flying.attempt)
    then = "it is sent again" if _left(flying) else "the link is suspended"
    if not ended:
        return f"Sending message {number}, {copy}, without an answer so far: at {until} {then}"
    if ended == AttemptOutcome.TRANSMITTED:
        waits = f"Waiting for the Acknowledgement of message {number} until {until}"
        return f"{waits}, {copy}: then {then}"
    return f"Message {number} was not transmitted, {copy}: at {until} {then}"


def _left(flying: InFlight) -> bool:
    return flying.retries_spent < flying.terms.retries


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


def _suspended(lane: Lane, end: str) -> str:
    if lane.in_flight is not None:
        return f"Message {lane.in_flight.sequence_number} blocks the queue."
    if lane.late_ack:
        return f"Late acknowledgement received{end}"
    return f"No message in flight{end}"


_SITUATIONS = {
    LaneState.IDLE: _idle,
    LaneState.WAITING: _unsent,
    LaneState.TRANSIENT: _transient,
}


def _copy(flying: InFlight, attempt: int) -> str:
    """Which attempt of how many. After attempts that used no retry, and after a resume, the numbers
    of attempts and retries differ."""
    spent, retries = flying.retries_spent, flying.terms.retries
    if attempt == spent + 1:
        return f"attempt {attempt} of {retries + 1}"
    return f"attempt {attempt}, {spent} of {retries} retries used"
