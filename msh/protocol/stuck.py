"""Is a link stuck? Not in a trouble that it has told of, but making no way although it has work."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from .kinds import DeliveryState
from .lane import OPERATOR, Lane, LaneState
from .vocabulary import utc_text

HELD = "deliveries are held by an operator"


def why_stuck(
    lane: Lane, moved_at: datetime | None, now: datetime, limit: timedelta, under_way: int = 0
) -> str:
    """A sentence, or "" if the lane is not stuck.

    `moved_at`: when something moved last on a lane that has work, None if it has none. `under_way`:
    messages without numbers that are. A suspended lane is not stuck, its incident is open; one that
    an operator has suspended has none.
    """
    if moved_at is None or now - moved_at <= limit:
        return ""
    since = _since(moved_at)
    if lane.state is LaneState.SUSPENDED:
        return f"{since}: suspended by an operator" if lane.suspended_for == OPERATOR else ""
    if under_way:
        messages = "1 message is" if under_way == 1 else f"{under_way} messages are"
        return f"{since}: {messages} under way and not acknowledged"
    if lane.in_flight is None:
        what = (
            "the partner asked us to wait"
            if lane.state is LaneState.TRANSIENT
            else "messages are queued, but none is in flight"
        )
        return f"{since}: {what}"
    flying = lane.in_flight
    return (
        f"{since}: number {flying.sequence_number} is in flight after {flying.attempt} attempts"
        f" and {flying.transients} TransientErrors"
    )


@dataclass(frozen=True, slots=True)
class Undelivered:
    """The first message of a pair that waits for its consumer.

    `moved_at`: when something moved last. `held`: an operator holds the partner's deliveries.
    `consumer` is a name, empty if none fits, and `enabled` whether it is switched on. `pulls`: its
    application fetches its messages, the last time at `fetched_at`.
    """

    moved_at: datetime
    held: bool
    consumer: str
    enabled: bool
    delivery: DeliveryState
    pulls: bool = False
    fetched_at: datetime | None = None

    def why(self) -> str:
        since = _since(self.moved_at)
        if self.held:
            return f"{since}: {HELD}"
        if not self.enabled:
            return f"{since}: consumer {self.consumer} is switched off"
        if self.delivery is DeliveryState.NEW:
            said = f"{since}: consumer {self.consumer} has not received the first message yet"
            return f"{said}; {self._fetched()}" if self.pulls else said
        state = self.delivery.replace("_", " ")
        return f"{since}: the delivery to consumer {self.consumer} is {state}"

    def _fetched(self) -> str:
        if self.fetched_at is None:
            return "its application has never fetched messages"
        return f"its application last fetched messages at {utc_text(self.fetched_at)}"


@dataclass(frozen=True, slots=True)
class StuckSignal:
    """The oldest Acknowledgement or Error that cannot be transmitted. `answer` is the last one."""

    kind: str
    since: datetime
    tries: int
    answer: str

    def why(self) -> str:
        return (
            f"an {self.kind} has been pending since {utc_text(self.since)}; after"
            f" {self.tries} attempts the last answer is: {self.answer}"
        )


def _since(moved_at: datetime) -> str:
    return f"no progress since {utc_text(moved_at)}"
