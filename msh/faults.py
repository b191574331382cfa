"""Named points at which a test lets a process die (kill -9), and nothing else.

MSH_CRASH_FILE names a file. Once a test writes a point's name into it, the first process to reach
that point removes the file and kills itself. Unset, `reach` is one comparison. Standard library
only, so that every room may use it.
"""

import os
import signal
from enum import StrEnum
from pathlib import Path


class CrashPoint(StrEnum):
    """Before and after every commit and every socket write of the exchange.

    The socket write of an answer to a partner is the web server's: before it is
    RECEIVE_AFTER_COMMIT and ACK_AFTER_COMMIT.
    """

    SUBMIT_BEFORE_COMMIT = "submit-before-commit"
    SUBMIT_AFTER_COMMIT = "submit-after-commit"
    POLL_BEFORE_COMMIT = "poll-before-commit"
    POLL_AFTER_COMMIT = "poll-after-commit"
    POST_BEFORE_WRITE = "post-before-write"
    POST_AFTER_WRITE = "post-after-write"
    OUTCOME_BEFORE_COMMIT = "outcome-before-commit"
    OUTCOME_AFTER_COMMIT = "outcome-after-commit"
    RECEIVE_BEFORE_COMMIT = "receive-before-commit"
    RECEIVE_AFTER_COMMIT = "receive-after-commit"
    SIGNAL_BEFORE_WRITE = "signal-before-write"
    SIGNAL_AFTER_WRITE = "signal-after-write"
    ACK_BEFORE_COMMIT = "ack-before-commit"
    ACK_AFTER_COMMIT = "ack-after-commit"
    DELIVER_AFTER_CLAIM = "deliver-after-claim"
    CONSUMER_BEFORE_WRITE = "consumer-before-write"
    CONSUMER_AFTER_WRITE = "consumer-after-write"
    CONSUMER_BEFORE_HISTORY = "consumer-before-history"
    CONSUMER_AFTER_HISTORY = "consumer-after-history"
    DELIVER_BEFORE_COMMIT = "deliver-before-commit"
    DELIVER_AFTER_COMMIT = "deliver-after-commit"
    FORWARD_BEFORE_COMMIT = "forward-before-commit"
    FORWARD_AFTER_COMMIT = "forward-after-commit"
    NOTIFY_BEFORE_COMMIT = "notify-before-commit"
    NOTIFY_AFTER_COMMIT = "notify-after-commit"
    BULK_BEFORE_COMMIT = "bulk-before-commit"


_FILE = os.environ.get("MSH_CRASH_FILE")


def reach(point: CrashPoint) -> None:
    if _FILE is not None and _said(Path(_FILE), point):
        os.kill(os.getpid(), signal.SIGKILL)


def _said(file: Path, point: CrashPoint) -> bool:
    try:
        if file.read_text() != point:
            return False
        file.unlink()  # of several processes one gets it
    except FileNotFoundError:
        return False
    return True
