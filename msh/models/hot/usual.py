"""What is written again and again, as one statement each."""

from .combine import given, if_unchanged, together
from .inbound import ACCEPTED, WRITE_LAST_NUMBER
from .journal import NOTIFY_FROM_PARTY, WRITE_HISTORY
from .lanes import WRITE_LANE
from .outbound import (
    CLAIM_ATTEMPT,
    COMPLETE_MESSAGE,
    COMPOSE_MESSAGE,
    END_ATTEMPT,
    PUT_IN_FLIGHT,
)
from .signals import OWE_SIGNAL

_STEPS = [
    (COMPLETE_MESSAGE, PUT_IN_FLIGHT, WRITE_LANE, NOTIFY_FROM_PARTY, WRITE_HISTORY, WRITE_HISTORY),
    (COMPLETE_MESSAGE, WRITE_LANE, NOTIFY_FROM_PARTY, WRITE_HISTORY),
    (COMPOSE_MESSAGE, WRITE_LANE, CLAIM_ATTEMPT),
    (WRITE_LANE, CLAIM_ATTEMPT),
    (WRITE_LANE, END_ATTEMPT),
]
_ACK_STEPS = [
    (COMPLETE_MESSAGE, PUT_IN_FLIGHT, NOTIFY_FROM_PARTY, WRITE_HISTORY, WRITE_HISTORY),
    (COMPLETE_MESSAGE, NOTIFY_FROM_PARTY, WRITE_HISTORY),
]

IF_UNCHANGED = {steps: if_unchanged(WRITE_LANE, *steps) for steps in _ACK_STEPS}
"""What comes with every Ack, as one statement for a lane that was read without a lock."""

TOGETHER = {steps: together(*steps) for steps in _STEPS}
"""What is written again and again, as one statement each: the server reads and runs one."""

ACCEPT_IF_UNCHANGED = f"""
    WITH guard AS ({WRITE_LAST_NUMBER} AND xmin = %s RETURNING id),
         {given(ACCEPTED, "guard")},
         story AS ({given(WRITE_HISTORY, "guard")}),
         signal AS ({given(OWE_SIGNAL, "guard")})
    SELECT id FROM guard
"""
