"""TransientErrors while nothing can be stored (000 §4.2): sent from memory, each in its own POST.

The web process transmits them itself, at most four at once for each partner; more are dropped. One
that is lost costs the partner a retry, because the answer to its POST was 503 as well.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from queue import SimpleQueue

from msh import wire
from msh.flows.sending.copies import UNSENDABLE, To, job_of
from msh.flows.sending.signals import header_of, http_deadline
from msh.models import SignalKind
from msh.protocol.admission import store_short
from msh.protocol.message import Field, Header
from msh.protocol.vocabulary import ErrorCode
from msh.transport.carrier import Carrier, Finished
from msh.transport.job import SIGNAL_CRASH_POINTS
from msh.wire.dialect import Entity
from partners.models import Partner, our_identity

WHY = store_short("this MSH cannot store messages now; retry later")


@dataclass(frozen=True, slots=True)
class _PendingError:
    """A signal that is not stored, with the values that a row of msh_signal would have."""

    ref_to_message_id: str
    tpa_id: str
    conversation_id: str
    kind: SignalKind = SignalKind.ERROR
    code: ErrorCode = ErrorCode.TRANSIENT_ERROR
    location: str = wire.locate(Field.MESSAGE)
    description: str = WHY.text
    min_retry_secs: int = WHY.wait


class _NullQueue(SimpleQueue[Finished]):
    """Nobody waits for how it ended."""

    def put(self, item: Finished, block: bool = True, timeout: float | None = None) -> None:
        pass


@cache
def _carrier() -> Carrier:
    return Carrier(_NullQueue())


def send_transient_error(partner: Partner, about: Header) -> bool:
    """Send a TransientError for a message that could not be stored. False if it was dropped."""
    # Nothing can be stored, so no row is queued. If the Error is lost, the Sender sends its message
    # again.
    carrier = _carrier()
    if not carrier.free(partner.pk):
        return False
    pending = _PendingError(about.message_id, about.tpa_id, about.conversation_id)
    try:
        identity = our_identity()
        header = header_of(pending, partner, identity, datetime.now(UTC))
        job = job_of(
            To(partner.pk, partner, identity),
            about.message_id,
            Entity(*wire.compose_signal(header)),
            http_deadline(),
            url=partner.error_destination,
            crash_points=SIGNAL_CRASH_POINTS,
        )
    except UNSENDABLE:
        return False
    carrier.submit([job])
    return True
