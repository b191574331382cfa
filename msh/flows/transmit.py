"""Outbound messages: copies to be sent are claimed, composed once, handed to the carrier."""

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from msh import wire
from msh.flows import advance
from msh.flows.advance import Lanes
from msh.flows.advance.outbound import BestEffortResult, end_of_best_effort
from msh.flows.room import Room
from msh.models import OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.events import (
    AttemptCarried,
    AttemptClaimed,
    AttemptFailed,
    AttemptRefused,
)
from msh.protocol.lane import LaneState
from msh.protocol.message import DocumentReference, Header, Party, Route
from msh.protocol.vocabulary import DeliverySemantics, MessageType
from msh.transport.carrier import AT_ONCE_PER_PARTNER
from msh.transport.job import Job
from partners.models import Identity, our_identity
from partners.secrecy import SecretUnreadableError

BATCH = 50
GRACE = 5.0
"""Most seconds from claim to socket write; then the process was stopped, and sends nothing."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Which copy a job carries. `attempt` is None for BestEffort."""

    key: int
    message_id: str
    partner_id: int
    attempt: int | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claimed copy of a reliable message. `http_deadline` in seconds."""

    sequence_number: int
    attempt: int
    http_deadline: float


class StoredBytesDamagedError(Exception):
    """The stored bytes of a message are not those that were composed."""


UNSENDABLE = (StoredBytesDamagedError, SecretUnreadableError, ValueError)
"""What keeps one copy from being sent, and is no fault of the database."""


def claim(lanes: Lanes, room: Room) -> dict[int, Claimed]:
    """Put the heads of idle lanes in flight and claim every copy that is to be sent.

    Returns message row id → what was claimed.
    """
    claimed: dict[int, Claimed] = {}
    for partner_id in lanes:
        if lanes.lane(partner_id).state is LaneState.IDLE:
            lanes.look(partner_id)
        if lanes.lane(partner_id).unsent and room.take(partner_id):
            key, one = _claim(lanes, partner_id)
            claimed[key] = one
    return claimed


def grace(deadline: float) -> float:
    """Seconds from claim to socket write that a copy with this HTTP deadline may take."""
    return min(GRACE, deadline)


def _claim(lanes: Lanes, partner_id: int) -> tuple[int, Claimed]:
    terms = lanes.lane(partner_id).flying.terms
    deadline = terms.http_deadline(settings.MSH_HTTP_DEADLINE)
    # The socket write may come as late as the grace allows; only then does the deadline run.
    lane = lanes.step(partner_id, AttemptClaimed(grace(deadline) + deadline))
    key, flying = lanes.in_flight_id(partner_id), lane.flying
    lanes.attempt_claimed(key, flying.attempt)
    return key, Claimed(flying.sequence_number, flying.attempt, deadline)


def jobs_of(lanes: Lanes, claimed: dict[int, Claimed]) -> list[Job]:
    """The jobs that carry the claimed copies, composing what was not composed before.

    A copy that cannot be made suspends its own lane and no other.
    """
    if not claimed:
        return []
    identity = our_identity()
    jobs = []
    for message in _load(claimed):
        one = claimed[message.pk]
        try:
            jobs.append(_job(lanes, message, identity, one.http_deadline, one))
        except UNSENDABLE as problem:
            partner_id = message.agreement.partner_id
            result = AttemptResult(AttemptOutcome.REFUSED, detail=str(problem), body_sent=False)
            lanes.step(partner_id, _event(message.message_id, one.attempt, result))
            lanes.attempt_ended(message.pk, one.attempt, result)
    return jobs


def best_effort_jobs(lanes: Lanes, busy: Iterable[int], room: Room) -> list[Job]:
    """Claim queued BestEffort messages: one attempt each, and no promise (D5, D25)."""
    keys = advance.lock_best_effort(busy, AT_ONCE_PER_PARTNER, BATCH)
    if not keys:
        return []
    identity = our_identity()
    deadline = settings.MSH_HTTP_DEADLINE
    jobs = []
    for message in _load(keys):
        partner_id = message.agreement.partner_id
        if not room.take(partner_id):
            continue
        lease = lanes.now + timedelta(seconds=deadline + 2 * GRACE)
        lanes.best_effort_claimed(message.pk, until=lease)
        try:
            jobs.append(_job(lanes, message, identity, deadline, None))
        except UNSENDABLE as problem:
            failed = AttemptResult(AttemptOutcome.FAILED, detail=str(problem), body_sent=False)
            one = BestEffortResult(message.pk, message.message_id, partner_id, failed)
            lanes.add_all(end_of_best_effort(one, lanes.now))
    return jobs


def _load(keys: Iterable[int]) -> list[OutboundMessage]:
    ids = list(keys)
    if not ids:
        return []
    messages = OutboundMessage.objects.filter(pk__in=ids).order_by("pk")
    return list(messages.select_related("agreement__partner").prefetch_related("payloads"))


def _job(
    lanes: Lanes,
    message: OutboundMessage,
    identity: Identity,
    deadline: float,
    claimed: Claimed | None,
) -> Job:
    partner = message.agreement.partner
    return Job(
        key=Copy(message.pk, message.message_id, partner.pk, claimed.attempt if claimed else None),
        partner_id=partner.pk,
        url=partner.destination,
        content_type=wire.content_type(message.boundary),
        body=_body(lanes, message, identity, claimed.sequence_number if claimed else None),
        authorization=partner.authorization(),
        deadline=deadline,
        not_after=time.monotonic() + grace(deadline),
    )


def _body(lanes: Lanes, message: OutboundMessage, identity: Identity, number: int | None) -> bytes:
    parts = [bytes(payload.wire) for payload in message.payloads.all()]
    if message.head is None or message.body_sha256 is None:
        header = header_of(message, identity, number, lanes.now)
        head = wire.compose_head(header, message.boundary, closing=not parts)
        body = b"".join((head, *parts))
        digest = hashlib.sha256(body).digest()
        lanes.composed(message.pk, head, digest)
        return body
    body = b"".join((bytes(message.head), *parts))
    if hashlib.sha256(body).digest() != bytes(message.body_sha256):
        raise StoredBytesDamagedError(f"the stored bytes of {message.message_id} have changed")
    return body


def header_of(
    message: OutboundMessage, identity: Identity, number: int | None, now: datetime
) -> Header:
    """The header of a Normal message at its first transmission."""
    agreement = message.agreement
    partner = agreement.partner
    ours = partner.our_uri or identity.uri
    route = Route(ours, partner.uri, identity.error_uri_for(ours), now, number)
    return Header(
        message_type=MessageType.NORMAL,
        from_party=Party(agreement.our_party, agreement.our_party_context),
        to_party=Party(agreement.their_party, agreement.their_party_context),
        tpa_id=agreement.tpa_id,
        conversation_id=message.conversation_id,
        service_interface=message.service_interface,
        action=message.action,
        message_id=message.message_id,
        timestamp=message.submitted_at,
        semantics=DeliverySemantics(message.semantics),
        routing=(route,),
        ref_to_message_id=message.ref_to_message_id,
        manifest=tuple(
            DocumentReference(payload.content_id, payload.label, payload.description)
            for payload in message.payloads.all()
        ),
    )


def record(ended: Sequence[tuple[Copy, AttemptResult]]) -> Lanes:
    """Let the lanes know how these attempts ended; written on their attempts in every case."""
    reliable = [(one, one.attempt, result) for one, result in ended if one.attempt is not None]
    lanes = Lanes.lock({one.partner_id for one, _, _ in reliable})
    for one, attempt, result in reliable:
        lanes.step(one.partner_id, _event(one.message_id, attempt, result))
        lanes.attempt_ended(one.key, attempt, result)
    lanes.write()
    advance.end_best_effort(
        BestEffortResult(one.key, one.message_id, one.partner_id, result)
        for one, result in ended
        if one.attempt is None
    )
    return lanes


def _event(
    message_id: str, attempt: int, result: AttemptResult
) -> AttemptCarried | AttemptFailed | AttemptRefused:
    match result.outcome:
        case AttemptOutcome.CARRIED:
            return AttemptCarried(message_id, attempt)
        case AttemptOutcome.REFUSED:
            return AttemptRefused(message_id, attempt, result.detail)
    doubted = result.outcome is AttemptOutcome.DOUBTED
    return AttemptFailed(message_id, attempt, result.detail, result.retry_after, doubted)
