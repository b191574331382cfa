"""Is a lane stuck? Not in trouble that it has told of, but making no way although it has work."""

from datetime import datetime, timedelta

from .lane import Lane, LaneState


def why_stuck(lane: Lane, oldest: datetime | None, now: datetime, limit: timedelta) -> str:
    """A sentence, or "" if the lane is not stuck.

    `oldest`: when the oldest message that is not done was submitted, None if there is none. It is
    stuck if that was more than `limit` ago. A suspended lane is not: its incident is open.
    """
    if oldest is None or lane.state is LaneState.SUSPENDED or now - oldest <= limit:
        return ""
    waits = f"the oldest message waits since {oldest:%Y-%m-%d %H:%M:%S} UTC"
    if lane.in_flight is None:
        what = "asked to wait" if lane.state is LaneState.TRANSIENT else "nothing is in flight"
        return f"{waits}; {what}"
    flying = lane.in_flight
    return (
        f"{waits}; number {flying.sequence_number} is in flight, {flying.attempt} attempts,"
        f" {flying.transients} TransientErrors"
    )
