"""Acknowledgements and Error Messages: from owed to the partner, each a POST of its own."""

import logging
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from msh import wire
from msh.flows import advance
from msh.flows.advance import Lanes, SignalResult
from msh.flows.package import packaged
from msh.flows.room import Room
from msh.models import SignalKind, hot
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.message import ErrorReport, Header, Party, Route
from msh.protocol.vocabulary import DeliverySemantics, ErrorCode, MessageType
from msh.transport.job import SIGNAL_CRASH_POINTS, Job
from partners.models import Identity, Partner
from partners.secrecy import SecretUnreadableError

logger = logging.getLogger(__name__)

UNSENDABLE = (SecretUnreadableError, ValueError)
"""What is known to keep one signal from being sent. Anything else is a defect of this MSH."""

GRACE = 5.0  # seconds between claim and socket write
LONGEST = 15.0
"""Seconds of one POST, at most: a signal is small, and what a lost worker was carrying is carried
again only after that."""


def http_deadline() -> float:
    """Seconds that the POST of a signal may take."""
    limit: float = settings.MSH_HTTP_DEADLINE
    return min(limit, LONGEST)


@dataclass(frozen=True, slots=True)
class SignalCopy:
    """Which signal a job carries."""

    key: int
    kind: str
    ref_to_message_id: str
    partner_id: int
    routed: bool = False
    """What it acknowledges may be sent on as soon as it was carried (000 §4.1.1)."""


def claim_signals(lanes: Lanes, signals: Iterable[Any], room: Room) -> list[Job]:
    """Claim locked signals, composing those that are not composed yet."""
    jobs: list[Job] = []
    deadline = http_deadline()
    lease = lanes.now + timedelta(seconds=deadline + 2 * GRACE)
    for row in signals:
        if not room.take(row.partner_id):
            continue
        try:
            job = _job(row, deadline, lanes.now)
        except (DatabaseError, MemoryError):
            raise
        except Exception as problem:  # noqa: BLE001  one signal stops no other
            lanes.add_all(_unsendable(row, problem, lanes.now))
        else:
            lanes.add(*advance.signal_claim(row.id, job.content_type, job.body, until=lease))
            jobs.append(job)
    return jobs


def _unsendable(row: Any, problem: Exception, now: datetime) -> list[hot.Statement]:
    """A secret that cannot be read may be mended; what cannot be composed never can be."""
    mendable = isinstance(problem, SecretUnreadableError)
    outcome = AttemptOutcome.FAILED if mendable else AttemptOutcome.REFUSED
    known = isinstance(problem, UNSENDABLE)
    why = advance.one_line(str(problem)) if known else advance.describe(problem)
    result = AttemptResult(outcome, detail=why, body_sent=False)
    ended = advance.signal_end(_result(_copy(row), result), now)
    if known:
        return ended
    logger.error("a signal could not be composed", exc_info=problem)
    about = (row.partner_id, "in", row.ref_to_message_id, why, now)
    return [*ended, *advance.processing_failed(*about)]


def record(lanes: Lanes, ended: Iterable[tuple[SignalCopy, AttemptResult]]) -> None:
    """Have `lanes` write how carrying these signals ended."""
    for copy, result in ended:
        lanes.forwards |= copy.routed
        lanes.add_all(advance.signal_end(_result(copy, result), lanes.now))


def _result(copy: SignalCopy, result: AttemptResult) -> SignalResult:
    return SignalResult(copy.key, copy.kind, copy.ref_to_message_id, copy.partner_id, result)


def header_of(row: Any, partner: Partner, identity: Identity, now: datetime) -> Header:
    """From and To are the MSHs, the rest is copied (000 §2.2.2, D19, D33)."""
    ours = partner.our_uri or identity.uri
    error = None
    if row.kind == SignalKind.ERROR:
        code = ErrorCode(row.code)
        error = ErrorReport(
            code=code,
            severity=code.severity,
            location=row.location,
            description=row.description,
            min_retry_secs=row.min_retry_secs,
        )
    return Header(
        message_type=MessageType(row.kind),
        from_party=Party(ours, "URI"),
        to_party=Party(partner.uri, "URI"),
        tpa_id=row.tpa_id,
        conversation_id=row.conversation_id,
        service_interface="",
        action="",
        message_id=str(uuid.uuid4()),
        timestamp=now,
        semantics=DeliverySemantics.BEST_EFFORT,
        routing=(Route(ours, partner.uri, identity.error_uri_for(ours), now),),
        ref_to_message_id=row.ref_to_message_id,
        error=error,
    )


def _copy(row: Any) -> SignalCopy:
    return SignalCopy(row.id, row.kind, row.ref_to_message_id, row.partner_id, row.routed)


def _job(row: Any, deadline: float, now: datetime) -> Job:
    partner, identity = hot.route_of(row)
    if row.body is None:
        content_type, body = wire.compose_signal(header_of(row, partner, identity, now))
    else:
        content_type, body = row.content_type, row.body  # the same one is tried again
    is_error = row.kind == SignalKind.ERROR
    url = partner.error_destination if is_error else partner.destination
    return Job(
        key=_copy(row),
        partner_id=row.partner_id,
        url=url,
        content_type=content_type,
        body=packaged(url, content_type, body),
        authorization=partner.authorization(),
        deadline=deadline,
        not_after=time.monotonic() + GRACE,
        sender=partner.our_uri or identity.uri,
        crash_points=SIGNAL_CRASH_POINTS,
    )
