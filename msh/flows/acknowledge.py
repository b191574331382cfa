"""Acknowledgements and Error Messages: from owed to the partner, each a POST of its own."""

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from msh import wire
from msh.flows import advance
from msh.flows.advance.signals import SignalClaim, SignalResult, claim
from msh.flows.room import Room
from msh.models import Signal, SignalKind
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.message import ErrorReport, Header, Party, Route
from msh.protocol.vocabulary import DeliverySemantics, ErrorCode, MessageType
from msh.transport.carrier import AT_ONCE_PER_PARTNER
from msh.transport.job import SIGNAL_CRASH_POINTS, Job
from partners.models import Identity, Partner, our_identity
from partners.secrecy import SecretUnreadableError

UNSENDABLE = (SecretUnreadableError, ValueError)
"""What keeps one signal from being sent, and is no fault of the database."""

BATCH = 50
GRACE = 5.0  # seconds between claim and socket write


@dataclass(frozen=True, slots=True)
class SignalCopy:
    """Which signal a job carries."""

    key: int
    kind: str
    ref_to_message_id: str
    partner_id: int


def claim_signals(now: datetime, busy: Iterable[int], room: Room) -> list[Job]:
    """Claim owed signals, composing those that are not composed yet. Needs a transaction."""
    keys = advance.lock_owed_signals(busy, AT_ONCE_PER_PARTNER, BATCH)
    if not keys:
        return []
    identity = our_identity()
    jobs: list[Job] = []
    claims: list[SignalClaim] = []
    unsendable = []
    deadline = settings.MSH_HTTP_DEADLINE
    lease = now + timedelta(seconds=deadline + 2 * GRACE)
    for signal in Signal.objects.filter(pk__in=keys).select_related("link__partner").order_by("pk"):
        if not room.take(signal.link.partner_id):
            continue
        try:
            content_type, body = _composed(signal, identity, now)
            jobs.append(_job(signal, content_type, body, deadline))
        except UNSENDABLE as problem:
            unsendable.append((_copy(signal), _not_sent(problem)))
        else:
            claims.append(SignalClaim(signal.pk, content_type, body))
    claim(claims, until=lease)
    record(unsendable)
    return jobs


def record(ended: Sequence[tuple[SignalCopy, AttemptResult]]) -> None:
    """Write how carrying these signals ended."""
    advance.end_signals(
        SignalResult(copy.key, copy.kind, copy.ref_to_message_id, copy.partner_id, result)
        for copy, result in ended
    )


def _composed(signal: Signal, identity: Identity, now: datetime) -> tuple[str, bytes]:
    if signal.body is not None:
        return signal.content_type, bytes(signal.body)  # the same one is tried again
    return wire.compose_signal(header_of(signal, signal.link.partner, identity, now))


def header_of(signal: Signal, partner: Partner, identity: Identity, now: datetime) -> Header:
    """From and To are the MSHs, the rest is copied (000 §2.2.2, D19, D33)."""
    ours = partner.our_uri or identity.uri
    error = None
    if signal.kind == SignalKind.ERROR:
        code = ErrorCode(signal.code)
        error = ErrorReport(
            code=code,
            severity=code.severity,
            location=signal.location,
            description=signal.description,
            min_retry_secs=signal.min_retry_secs,
        )
    return Header(
        message_type=MessageType(signal.kind),
        from_party=Party(ours, "URI"),
        to_party=Party(partner.uri, "URI"),
        tpa_id=signal.tpa_id,
        conversation_id=signal.conversation_id,
        service_interface="",
        action="",
        message_id=str(uuid.uuid4()),
        timestamp=now,
        semantics=DeliverySemantics.BEST_EFFORT,
        routing=(Route(ours, partner.uri, identity.error_uri_for(ours), now),),
        ref_to_message_id=signal.ref_to_message_id,
        error=error,
    )


def _not_sent(problem: Exception) -> AttemptResult:
    """A secret that cannot be read may be mended; what cannot be composed never can be."""
    mendable = isinstance(problem, SecretUnreadableError)
    outcome = AttemptOutcome.FAILED if mendable else AttemptOutcome.REFUSED
    return AttemptResult(outcome, detail=str(problem), body_sent=False)


def _copy(signal: Signal) -> SignalCopy:
    return SignalCopy(signal.pk, signal.kind, signal.ref_to_message_id, signal.link.partner_id)


def _job(signal: Signal, content_type: str, body: bytes, deadline: float) -> Job:
    partner = signal.link.partner
    error = signal.kind == SignalKind.ERROR
    return Job(
        key=_copy(signal),
        partner_id=partner.pk,
        url=partner.error_destination if error else partner.destination,
        content_type=content_type,
        body=body,
        authorization=partner.authorization(),
        deadline=deadline,
        not_after=time.monotonic() + GRACE,
        crash_points=SIGNAL_CRASH_POINTS,
    )
