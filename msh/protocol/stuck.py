"""Is a lane stuck? Not in a trouble that it has told of, but making no way although it has work."""

from datetime import datetime, timedelta

from .lane import Lane, LaneState


def why_stuck(lane: Lane, moved_at: datetime | None, now: datetime, limit: timedelta) -> str:
    """A sentence, or "" if the lane is not stuck.

    `moved_at`: when something moved last on a lane that has work, None if it has none. A suspended
    lane is not stuck: its incident is open.
    """
    if moved_at is None or lane.state is LaneState.SUSPENDED or now - moved_at <= limit:
        return ""
    since = f"nothing has moved since {moved_at:%Y-%m-%d %H:%M:%S} UTC"
    if lane.in_flight is None:
        what = (
            "asked to wait" if lane.state is LaneState.TRANSIENT else "a queue, nothing in flight"
        )
        return f"{since}: {what}"
    flying = lane.in_flight
    return (
        f"{since}: number {flying.sequence_number} is in flight after {flying.attempt} attempts"
        f" and {flying.transients} TransientErrors"
    )
