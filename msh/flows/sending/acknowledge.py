"""Acknowledgements and Error Messages: from pending to the partner, each a POST of its own."""

import logging
import time
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from django.conf import settings
from django.db import DatabaseError

from msh import wire
from msh.flows.send_budget import SendBudget
from msh.flows.sending.package import packaged
from msh.models import SignalKind
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.message import ErrorReport, Header, Party, Route
from msh.protocol.vocabulary import DeliverySemantics, ErrorCode, MessageType
from msh.store.incidents import processing_failed
from msh.store.sending.isolation import describe, one_line
from msh.store.sending.links import OutboundLinks
from msh.store.sending.signals import (
    KEEP_CLAIMED,
    PendingSignal,
    SignalResult,
    claim_signal,
    end_signal,
    end_signals,
)
from msh.transport.job import SIGNAL_CRASH_POINTS, Job
from msh.wire.dialect import dialect_named
from partners.models import Identity, Partner
from partners.secrecy import SecretUnreadableError

logger = logging.getLogger(__name__)

UNSENDABLE = (SecretUnreadableError, ValueError)
"""What is known to keep one signal from being sent. Anything else is a defect of this MSH."""

GRACE = 5.0  # seconds between claim and socket write
LONGEST = 15.0
"""Seconds of one POST, at most: a signal is small, and one that a lost worker was transmitting is
sent again only after that."""


class SignalText(Protocol):
    """What a header says of a signal."""

    @property
    def kind(self) -> str: ...
    @property
    def ref_to_message_id(self) -> str: ...
    @property
    def tpa_id(self) -> str: ...
    @property
    def conversation_id(self) -> str: ...
    @property
    def code(self) -> str: ...
    @property
    def location(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def min_retry_secs(self) -> int | None: ...


def http_deadline() -> float:
    """Seconds that the POST of a signal may take."""
    limit: float = settings.MSH_HTTP_DEADLINE
    return min(limit, LONGEST)


@dataclass(frozen=True, slots=True)
class SignalCopy:
    """Which signal a job transmits. If that fails, the same bytes are tried again."""

    key: int
    kind: str
    ref_to_message_id: str
    partner_id: int
    routed: bool = False
    """The message it acknowledges may be forwarded as soon as it was transmitted (000 §4.1.1)."""
    again: bool = field(default=False, compare=False)
    """It was transmitted before."""
    content_type: str = field(default="", compare=False)
    body: bytes | None = field(default=None, compare=False, repr=False)


def claim_signals(
    links: OutboundLinks, signals: Iterable[PendingSignal], budget: SendBudget
) -> list[Job]:
    jobs: list[Job] = []
    lease = _lease(links.now)
    for row in signals:
        if budget.reserve(row.partner_id) and (job := _job_or_end(links, row)):
            links.add(claim_signal(row.id, until=lease))
            jobs.append(job)
    return jobs


def jobs_of_claimed(
    links: OutboundLinks, signals: Iterable[PendingSignal], budget: SendBudget
) -> tuple[list[Job], list[int]]:
    """The jobs of signals that were claimed with their message, and the keys of those for which
    there is no place now."""
    jobs, left = [], []
    for row in signals:
        if not budget.reserve(row.partner_id):
            left.append(row.id)
        elif job := _job_or_end(links, row):
            jobs.append(job)
    return jobs, left


def keep_claimed(links: OutboundLinks, keys: Collection[int]) -> None:
    """Their POSTs take long: they are not to be sent again meanwhile."""
    links.add(KEEP_CLAIMED(keys=list(keys), until=_lease(links.now)))


def _lease(now: datetime) -> datetime:
    return now + timedelta(seconds=http_deadline() + 2 * GRACE)


def _job_or_end(links: OutboundLinks, row: PendingSignal) -> Job | None:
    try:
        return _job(row, http_deadline(), links.now)
    except (DatabaseError, MemoryError):
        raise
    except Exception as problem:  # noqa: BLE001  one signal stops no other
        _end_unsendable(links, row, problem)
        return None


def _end_unsendable(links: OutboundLinks, row: PendingSignal, problem: Exception) -> None:
    """A secret that cannot be read may be repaired; what cannot be composed never can be."""
    repairable = isinstance(problem, SecretUnreadableError)
    outcome = AttemptOutcome.FAILED if repairable else AttemptOutcome.REFUSED
    known = isinstance(problem, UNSENDABLE)
    why = one_line(str(problem)) if known else describe(problem)
    result = AttemptResult(outcome, detail=why, body_sent=False)
    copy = _copy(row, row.content_type, row.body)
    links.add_all(end_signal(_result(copy, result), links.now))
    if not known:
        logger.error("a signal could not be composed", exc_info=problem)
        about = (row.partner_id, "in", row.ref_to_message_id, why, links.now)
        links.add_all(processing_failed(*about))


def record(links: OutboundLinks, ended: Iterable[tuple[SignalCopy, AttemptResult]]) -> None:
    results = []
    for copy, result in ended:
        links.forwards |= copy.routed
        results.append(_result(copy, result))
    links.add_all(end_signals(results, links.now))


def _result(copy: SignalCopy, result: AttemptResult) -> SignalResult:
    about = (copy.key, copy.kind, copy.ref_to_message_id, copy.partner_id)
    return SignalResult(*about, result, copy.again, copy.content_type, copy.body)


def header_of(row: SignalText, partner: Partner, identity: Identity, now: datetime) -> Header:
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


def _copy(row: PendingSignal, content_type: str, body: bytes | None) -> SignalCopy:
    about = (row.id, row.kind, row.ref_to_message_id, row.partner_id)
    return SignalCopy(*about, row.routed, row.transmitted > 0, content_type, body)


def _job(row: PendingSignal, deadline: float, now: datetime) -> Job:
    partner, identity = row.partner, row.identity
    if row.body is None:
        content_type, body = wire.compose_signal(header_of(row, partner, identity, now))
    else:
        content_type, body = row.content_type, row.body  # tried again, or kept
    is_error = row.kind == SignalKind.ERROR
    url = partner.error_destination if is_error else partner.destination
    return Job(
        key=_copy(row, content_type, body),
        partner_id=row.partner_id,
        url=url,
        content_type=content_type,
        body=packaged(url, content_type, body),
        authorization=partner.authorization(),
        deadline=deadline,
        not_after=time.monotonic() + GRACE,
        sender=partner.our_uri or identity.uri,
        crash_points=SIGNAL_CRASH_POINTS,
        headers=dialect_named(row.dialect).headers,
        message_id=row.ref_to_message_id,
    )
