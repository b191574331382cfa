"""Signals: Acknowledgements and Error Messages, each a POST of its own.

One of the kinds of `kinds.py`.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

from django.conf import settings

from msh import wire
from msh.flows.send_budget import SendBudget
from msh.flows.sending import copies
from msh.flows.sending.copies import UNSENDABLE, why_unsendable
from msh.flows.sending.kinds import Ended, Unit
from msh.flows.sending.one_by_one import found
from msh.models import SignalKind
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.message import ErrorReport, Header, Party, Route
from msh.protocol.vocabulary import DeliverySemantics, ErrorCode, MessageType
from msh.store.incidents import processing_failed
from msh.store.sending import polling
from msh.store.sending.isolation import isolate_signal
from msh.store.sending.links import OutboundLinks
from msh.store.sending.polling import Slots, Work
from msh.store.sending.signals import (
    CLAIM,
    KEEP_CLAIMED,
    PendingSignal,
    SignalCopy,
    end_signal,
    end_signals,
)
from msh.transport.job import GRACE, SIGNAL_CRASH_POINTS, Job
from msh.wire.dialect import Entity, dialect_named
from partners.models import Identity, Partner
from partners.secrecy import SecretUnreadableError

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


def record(links: OutboundLinks, ended: Sequence[Ended]) -> None:
    links.forwards |= any(one.copy.routed for one in ended)
    links.add_all(end_signals([(one.copy, one.result) for one in ended], links.now))


def claim(links: Work, budget: SendBudget) -> list[Job]:
    """The POSTs of those that are under way take long: they are not to be sent again meanwhile."""
    until = links.now + timedelta(seconds=http_deadline() + 2 * GRACE)
    if kept := [job.key.key for job in links.under_way if isinstance(job.key, SignalCopy)]:
        links.add(KEEP_CLAIMED(keys=kept, until=until))

    def make(row: PendingSignal) -> Job:
        job = _job(row, links.now)
        links.add(CLAIM(key=row.id, until=until))
        return job

    rows = (row for row in links.signals if budget.reserve(row.partner_id))
    return copies.jobs_of(rows, make, partial(_end_unsendable, links))


def units_of_outcomes(ended: Sequence[Ended]) -> Iterable[Unit]:
    return [_unit(Work.none, one.copy, [one]) for one in ended]


def units_of_poll(slots: Slots) -> Iterable[Unit]:
    for row in found(partial(polling.lock_signals, slots)):
        yield _unit(partial(polling.work_of_signal, row.id), _copy(row, "", None))


def _unit(lock: Callable[[], Work], copy: SignalCopy, ended: Sequence[Ended] = ()) -> Unit:
    return Unit(f"signal {copy.key}", lock, partial(isolate_signal, copy), ended)


def jobs_of_claimed(links: Work, budget: SendBudget) -> tuple[list[Job], list[int]]:
    """The jobs of signals that were claimed with their message, and the keys of those for which
    there is no slot now."""
    rows, left = [], []
    for row in links.signals:
        if budget.reserve(row.partner_id):
            rows.append(row)
        else:
            left.append(row.id)
    make = partial(_job, now=links.now)
    return copies.jobs_of(rows, make, partial(_end_unsendable, links)), left


def _end_unsendable(links: OutboundLinks, row: PendingSignal, problem: Exception) -> None:
    """A secret that cannot be read may be repaired; what cannot be composed never can be."""
    repairable = isinstance(problem, SecretUnreadableError)
    outcome = AttemptOutcome.FAILED if repairable else AttemptOutcome.REFUSED
    why = why_unsendable(problem)
    result = AttemptResult(outcome, detail=why, body_sent=False)
    copy = _copy(row, row.content_type, row.body)
    links.add_all(end_signal(copy, result, links.now))
    if not isinstance(problem, UNSENDABLE):
        about = (row.partner_id, "in", row.ref_to_message_id, why, links.now)
        links.add_all(processing_failed(*about))


def header_of(row: SignalText, partner: Partner, identity: Identity, now: datetime) -> Header:
    """The header of a signal. From and To are the MSHs, the rest is copied (000 §2.2.2, D19,
    D33)."""
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


def _job(row: PendingSignal, now: datetime) -> Job:
    partner = row.partner
    if row.body is None:
        content_type, body = wire.compose_signal(header_of(row, partner, row.identity, now))
    else:
        content_type, body = row.content_type, row.body  # tried again, or kept
    is_error = row.kind == SignalKind.ERROR
    default = partner.error_destination if is_error else partner.destination
    return copies.job_of(
        row,
        _copy(row, content_type, body),
        Entity(content_type, body, dialect_named(row.dialect).headers),
        http_deadline(),
        message_id=row.ref_to_message_id,
        url=row.channel_address or default,
        crash_points=SIGNAL_CRASH_POINTS,
    )
