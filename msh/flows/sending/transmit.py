"""Outbound messages: copies to be sent are claimed, composed once, handed to the carrier."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings

from msh import wire
from msh.flows.send_budget import SendBudget
from msh.flows.sending import copies
from msh.flows.sending.copies import (
    ANSWER_LIMIT,
    GRACE,
    UNSENDABLE,
    lease,
    stored_body,
    why_unsendable,
)
from msh.protocol.attempt import (
    AttemptOutcome,
    AttemptResult,
    asks_to_wait,
    is_unreachable,
)
from msh.protocol.events import (
    AttemptClaimed,
    AttemptFailed,
    AttemptRefused,
    AttemptTransmitted,
    SenderEvent,
)
from msh.protocol.lane import PROMISED_FOR, LaneState
from msh.protocol.message import DocumentReference, Header, Party, Route
from msh.protocol.sender.answers import wait_asked_for
from msh.protocol.vocabulary import DeliverySemantics, MessageType
from msh.store.incidents import processing_failed
from msh.store.sending.best_effort import BestEffortResult, end_best_effort, end_calls
from msh.store.sending.best_effort_sql import BestEffortRow, WaitingMessage
from msh.store.sending.links import OutboundLinks
from msh.store.sending.message_sql import CopyRow, PromisedCopy
from msh.store.sending.submissions import load_best_effort, load_copies
from msh.transport.job import Job, Lapse
from msh.wire.dialect import Entity, dialect_named


@dataclass(frozen=True, slots=True)
class Copy:
    """Which copy a job transmits. `attempt` is None for BestEffort. `agreement_id`: what its
    partner answers on the connection is read."""

    key: int
    message_id: str
    partner_id: int
    attempt: int | None
    agreement_id: int | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claimed copy of a reliable message. `http_deadline` in seconds."""

    sequence_number: int
    attempt: int
    http_deadline: float


def claim(links: OutboundLinks, budget: SendBudget) -> dict[int, Claimed]:
    """Put the heads of idle links in flight and claim every copy that is to be sent.

    Returns message row id → what was claimed.
    """
    claimed: dict[int, Claimed] = {}
    for partner_id in links:
        if links.lane(partner_id).state is LaneState.IDLE:
            links.start_next(partner_id)
        lane = links.lane(partner_id)
        may_go = lane.unsent and lane.is_due(links.now)
        if may_go and budget.reserve(partner_id, links.size(partner_id)):
            key, one = _claim(links, partner_id)
            claimed[key] = one
    return claimed


def _claim(links: OutboundLinks, partner_id: int) -> tuple[int, Claimed]:
    terms = links.lane(partner_id).flying.terms
    deadline = terms.http_deadline(settings.MSH_HTTP_DEADLINE)
    lane = links.step(partner_id, AttemptClaimed(lease(deadline)))
    key, flying = links.in_flight_id(partner_id), lane.flying
    links.insert_attempt(key, flying.attempt)
    return key, Claimed(flying.sequence_number, flying.attempt, deadline)


def jobs_of(
    links: OutboundLinks, claimed: dict[int, Claimed], loaded: Iterable[CopyRow] = ()
) -> list[Job]:
    """The jobs that transmit the claimed copies, composing what was not composed before. `loaded`:
    rows that were read already.

    A copy that cannot be made suspends its own lane and no other.
    """

    def make(row: CopyRow) -> Job:
        one = claimed[row.id]
        body = compose(links, row, one.sequence_number)
        return _job_of(row, body, one.http_deadline, one.attempt)

    def give_up(row: CopyRow, problem: Exception) -> None:
        attempt, why = claimed[row.id].attempt, why_unsendable(problem)
        result = AttemptResult(AttemptOutcome.REFUSED, detail=why, body_sent=False)
        links.step(row.partner_id, event_of(row.message_id, attempt, result))
        links.end_attempt(row.id, attempt, result)

    rows = {row.id: row for row in loaded if row.id in claimed}
    others = [key for key in claimed if key not in rows]
    return copies.jobs_of((*rows.values(), *load_copies(others)), make, give_up)


def best_effort_jobs(
    links: OutboundLinks, waiting: Iterable[WaitingMessage], budget: SendBudget
) -> list[Job]:
    deadline: float = settings.MSH_HTTP_DEADLINE
    until = links.now + timedelta(seconds=deadline + 2 * GRACE)

    def make(row: BestEffortRow) -> Job:
        links.claim_best_effort(row.id, until)
        return _best_effort_job(links, row, deadline)

    def give_up(row: BestEffortRow, problem: Exception) -> None:
        why = why_unsendable(problem)
        failed = AttemptResult(AttemptOutcome.FAILED, detail=why, body_sent=False)
        one = BestEffortResult(row.id, row.message_id, row.partner_id, failed)
        links.add_all(end_calls(one, links.now))
        if not isinstance(problem, UNSENDABLE):
            about = (row.partner_id, "out", row.message_id, why, links.now)
            links.add_all(processing_failed(*about))

    keys = [row.id for row in waiting if budget.reserve(row.partner_id, row.size)]
    return copies.jobs_of(load_best_effort(keys), make, give_up)


def job_of_promised(row: PromisedCopy, deadline: float, asked_at: float) -> Job:
    """The job of a copy that was promised when it was `asked_at`. Raises what `why_unsendable`
    explains."""
    job = _job_of(row, stored_body(row), deadline, row.attempt)
    left = min(row.seconds_left, PROMISED_FOR.total_seconds())  # the clock may have been set back
    return replace(job, lapse=Lapse(asked_at + left))


def _job_of(row: CopyRow, body: bytes, deadline: float, attempt: int | None) -> Job:
    key = Copy(row.id, row.message_id, row.partner_id, attempt)
    entity = Entity(wire.content_type(row.boundary), body)
    return copies.job_of(row, key, entity, deadline, message_id=row.message_id)


def _best_effort_job(links: OutboundLinks, row: BestEffortRow, deadline: float) -> Job:
    """One that flies in no dialect is composed as those are that fly in its own (EB-081)."""
    dialect = dialect_named(row.dialect)
    if dialect.compose_head is None:
        return _job_of(row, compose(links, row, None), deadline, None)
    body = copies.body_of(links, row, partial(dialect.compose_head, row, None, links.now, None))
    content_type = dialect.content_type(row.boundary, bool(row.wires))
    return copies.job_of(
        row,
        Copy(row.id, row.message_id, row.partner_id, None, row.agreement_id),
        Entity(content_type, body, dialect.headers_of(row)),
        deadline,
        message_id=row.message_id,
        answer_limit=ANSWER_LIMIT,
    )


def compose(links: OutboundLinks, row: CopyRow, number: int | None) -> bytes:
    """The bytes of a message under this number, composed once and written with `links`."""
    return copies.body_of(links, row, partial(_head, row, number, links.now))


def _head(row: CopyRow, number: int | None, now: datetime) -> bytes:
    partner, identity, closing = row.partner, row.identity, not row.wires
    ours = partner.our_uri or identity.uri
    route = Route(ours, partner.uri, identity.error_uri_for(ours), now, number)
    if row.forwarded_header is not None:
        return wire.compose_routed_head(row.forwarded_header, route, row.boundary, closing=closing)
    return wire.compose_head(header_of(row, route), row.boundary, closing=closing)


def header_of(row: CopyRow, route: Route) -> Header:
    documents = zip(row.content_ids or [], row.labels or [], row.descriptions or [], strict=True)
    return Header(
        message_type=MessageType.NORMAL,
        from_party=Party(row.our_party, row.our_party_context),
        to_party=Party(row.their_party, row.their_party_context),
        tpa_id=row.tpa_id,
        conversation_id=row.conversation_id,
        service_interface=row.service_interface,
        action=row.action,
        message_id=row.message_id,
        timestamp=row.submitted_at,
        semantics=DeliverySemantics(row.semantics),
        routing=(route,),
        ref_to_message_id=row.ref_to_message_id,
        manifest=tuple(DocumentReference(*document) for document in documents),
    )


def partners_of(ended: Iterable[tuple[object, AttemptResult]]) -> set[int]:
    copies = (key for key, _ in ended if isinstance(key, Copy))
    return {copy.partner_id for copy in copies if copy.attempt is not None}


def record(links: OutboundLinks, ended: Iterable[tuple[Copy, AttemptResult]]) -> None:
    for one, result in ended:
        if one.attempt is not None:
            event: SenderEvent = event_of(one.message_id, one.attempt, result)
            if isinstance(event, AttemptFailed):
                event = wait_asked_for(links.lane(one.partner_id), event)
            links.step(one.partner_id, event)
            links.end_attempt(one.key, one.attempt, result)


def record_best_effort(ended: Sequence[tuple[Copy, AttemptResult]]) -> None:
    end_best_effort(
        BestEffortResult(one.key, one.message_id, one.partner_id, result)
        for one, result in ended
        if one.attempt is None
    )


def event_of(
    message_id: str, attempt: int, result: AttemptResult
) -> AttemptTransmitted | AttemptFailed | AttemptRefused:
    """How an attempt ended, for a lane or a flight."""
    status = result.status
    match result.outcome:
        case AttemptOutcome.TRANSMITTED:
            return AttemptTransmitted(message_id, attempt)
        case AttemptOutcome.REFUSED:
            code = result.code or ("" if status is None else str(status))
            return AttemptRefused(message_id, attempt, result.detail, code, result.reason)
    return AttemptFailed(
        message_id,
        attempt,
        result.detail,
        result.retry_after,
        doubted=result.outcome is AttemptOutcome.DOUBTED,
        unreachable=is_unreachable(status, result.retry_after),
        asked_to_wait=asks_to_wait(status, result.retry_after),
        nothing_sent=not result.body_sent,
        reason=result.reason,
    )
