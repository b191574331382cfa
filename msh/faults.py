"""Named points at which a test lets the process die (kill -9), and nothing else.

Set MSH_CRASH_AT=NAME or NAME:N (the Nth time it is reached). Unset, `reach` is one
comparison. Standard library only, so that every room may use it.
"""

import os
import signal
from enum import StrEnum


class CrashPoint(StrEnum):
    """Before and after every commit and every socket write of the exchange."""

    SUBMIT_BEFORE_COMMIT = "submit-before-commit"
    SUBMIT_AFTER_COMMIT = "submit-after-commit"
    LOOK_BEFORE_COMMIT = "look-before-commit"
    LOOK_AFTER_COMMIT = "look-after-commit"
    POST_BEFORE_WRITE = "post-before-write"
    POST_AFTER_WRITE = "post-after-write"
    OUTCOME_BEFORE_COMMIT = "outcome-before-commit"
    OUTCOME_AFTER_COMMIT = "outcome-after-commit"
    RECEIVE_BEFORE_COMMIT = "receive-before-commit"
    RECEIVE_AFTER_COMMIT = "receive-after-commit"
    SIGNAL_BEFORE_COMMIT = "signal-before-commit"
    SIGNAL_AFTER_COMMIT = "signal-after-commit"
    SIGNAL_BEFORE_WRITE = "signal-before-write"
    SIGNAL_AFTER_WRITE = "signal-after-write"
    ACK_BEFORE_COMMIT = "ack-before-commit"
    ACK_AFTER_COMMIT = "ack-after-commit"
    DELIVER_BEFORE_COMMIT = "deliver-before-commit"
    DELIVER_AFTER_COMMIT = "deliver-after-commit"
    ANSWER_AFTER_WRITE = "answer-after-write"


_name, _, _count = os.environ.get("MSH_CRASH_AT", "").partition(":")
_left = int(_count or 1)


def reach(point: CrashPoint) -> None:
    """Die here if this run was told to."""
    global _left
    if point != _name:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
