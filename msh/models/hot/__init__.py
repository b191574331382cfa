"""Statements of the hot path: set-based, prepared by the server, several a round trip.

Only `flows.advance` runs those that write (DESIGN 4).
"""

from .inbound import (
    ACCEPT_MESSAGE,
    COUNT_DUPLICATE,
    LOAD_INBOUND,
    LOCK_INBOUND_LINK,
    WRITE_LAST_NUMBER,
)
from .journal import (
    NOTE_ON_INCIDENTS,
    NOTIFY_FROM_PARTY,
    OPEN_INCIDENT,
    RESOLVE_INCIDENTS,
    WRITE_HISTORY,
)
from .lanes import (
    LOAD_LANES,
    LOCK_DUE_LANES,
    LOCK_IDLE_LANES_WITH_QUEUE,
    LOCK_LANES,
    READ_LANE,
    WRITE_LANE,
)
from .outbound import (
    CANCEL_MESSAGE,
    CLAIM_ATTEMPT,
    COMPLETE_MESSAGE,
    COMPOSE_MESSAGE,
    COUNT_DUPLICATE_ACK,
    END_ATTEMPT,
    FIND_SENT_MESSAGE,
    LEASE_BEST_EFFORT,
    LOAD_COPIES,
    LOCK_BEST_EFFORT,
    LOCK_BEST_EFFORT_IN_FLIGHT,
    LOCK_LOST_BEST_EFFORT,
    PUT_IN_FLIGHT,
    RECORD_LATE_VERDICT,
    REQUEUE_MESSAGE,
    REWIND_MESSAGES,
    SUBMIT_MESSAGE,
)
from .partner import route_of
from .running import CLOCK, Statement, fetch, pipeline, run
from .signals import (
    CLAIM_SIGNAL,
    LOCK_OWED_SIGNALS,
    OWE_SIGNAL,
    SIGNAL_CARRIED,
    SIGNAL_FAILED,
    SIGNAL_REFUSED,
)
from .usual import (
    ACCEPT_IF_UNCHANGED,
    IF_UNCHANGED,
)

__all__ = [
    "ACCEPT_IF_UNCHANGED",
    "ACCEPT_MESSAGE",
    "CANCEL_MESSAGE",
    "CLAIM_ATTEMPT",
    "CLAIM_SIGNAL",
    "CLOCK",
    "COMPLETE_MESSAGE",
    "COMPOSE_MESSAGE",
    "COUNT_DUPLICATE",
    "COUNT_DUPLICATE_ACK",
    "END_ATTEMPT",
    "FIND_SENT_MESSAGE",
    "IF_UNCHANGED",
    "LEASE_BEST_EFFORT",
    "LOAD_COPIES",
    "LOAD_INBOUND",
    "LOAD_LANES",
    "LOCK_BEST_EFFORT",
    "LOCK_BEST_EFFORT_IN_FLIGHT",
    "LOCK_DUE_LANES",
    "LOCK_IDLE_LANES_WITH_QUEUE",
    "LOCK_INBOUND_LINK",
    "LOCK_LANES",
    "LOCK_LOST_BEST_EFFORT",
    "LOCK_OWED_SIGNALS",
    "NOTE_ON_INCIDENTS",
    "NOTIFY_FROM_PARTY",
    "OPEN_INCIDENT",
    "OWE_SIGNAL",
    "PUT_IN_FLIGHT",
    "READ_LANE",
    "RECORD_LATE_VERDICT",
    "REQUEUE_MESSAGE",
    "RESOLVE_INCIDENTS",
    "REWIND_MESSAGES",
    "SIGNAL_CARRIED",
    "SIGNAL_FAILED",
    "SIGNAL_REFUSED",
    "SUBMIT_MESSAGE",
    "WRITE_HISTORY",
    "WRITE_LANE",
    "WRITE_LAST_NUMBER",
    "Statement",
    "fetch",
    "pipeline",
    "route_of",
    "run",
]
