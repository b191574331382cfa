"""Lanes: the reliable messages of the draft, one at a time to each partner, in order.

One of the kinds of `kinds.py`.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from django.conf import settings

from msh import wire
from msh.flows.send_budget import SendBudget
from msh.flows.sending import copies
from msh.flows.sending.copies import event_of, lease, stored_body, why_unsendable
from msh.flows.sending.kinds import Ended, LaneCopy, Unit, attempts_of
from msh.flows.sending.one_by_one import found
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.events import (
    AttemptBegun,
    AttemptClaimed,
    AttemptFailed,
    DeadlinePassed,
    SenderEvent,
)
from msh.protocol.lane import PROMISED_FOR, LaneState
from msh.protocol.message import DocumentReference, Header, Party, Route
from msh.protocol.sender.answers import wait_asked_for
from msh.protocol.vocabulary import DeliverySemantics, MessageType
from msh.store.sending import polling
from msh.store.sending.isolation import isolate_link
from msh.store.sending.links import OutboundLinks
from msh.store.sending.message_sql import CopyRow, PromisedCopy
from msh.store.sending.polling import Slots, Work
from msh.transport.job import Job, Lapse
from msh.wire.dialect import Entity

COMMIT_MARGIN = 0.1
"""Seconds: jobs that lapse sooner are not marked as begun."""


def record(links: OutboundLinks, ended: Sequence[Ended]) -> None:
    for one in ended:
        copy: LaneCopy = one.copy
        event: SenderEvent = event_of(copy.message_id, copy.attempt, one.result)
        if isinstance(event, AttemptFailed):
            event = wait_asked_for(links.lane(copy.partner_id), event)
        links.step(copy.partner_id, event)
        links.end_attempt(copy.key, copy.attempt, one.result)


def claim(links: Work, budget: SendBudget) -> list[Job]:
    """First the promised copies that this worker is sending are kept."""
    links.kept = keep(links, links.under_way)
    for partner_id in links.due:
        lane = links.lane(partner_id)
        if lane.state is not LaneState.IDLE and not lane.unsent:
            links.step(partner_id, DeadlinePassed())  # sent again, or suspended (000 §2.1.4)
    claimed = []
    for partner_id in links:
        if links.lane(partner_id).state is LaneState.IDLE:
            links.start_next(partner_id)
        locked = links.locked(partner_id)
        lane = locked.lane
        may_go = lane.unsent and lane.is_due(links.now)
        # The size is that of the message in flight if it was there when the link was read.
        if may_go and budget.reserve(partner_id, locked.row.size or 0):
            key = locked.keys[lane.flying.message_id]
            deadline = lane.flying.terms.http_deadline(settings.MSH_HTTP_DEADLINE)
            lane = links.step(partner_id, AttemptClaimed(lease(deadline)))
            links.insert_attempt(key, lane.flying.attempt)
            claimed.append(key)
    return _jobs_of(links, claimed)


def units_of_outcomes(ended: Sequence[Ended]) -> Iterable[Unit]:
    of_links: defaultdict[int, list[Ended]] = defaultdict(list)
    for one in ended:
        of_links[one.copy.partner_id].append(one)
    return [_unit(link, partial(Work.lock, [link]), of_links[link]) for link in of_links]


def units_of_poll(slots: Slots) -> Iterable[Unit]:
    for partner_id in found(partial(polling.lock_links, slots)):
        yield _unit(partner_id, partial(polling.work_of_link, partner_id))


def unit_of_promise(partner_id: int) -> Unit:
    """The unit in which a promised copy to this partner is kept."""
    return _unit(partner_id, partial(Work.lock, [partner_id]))


def _unit(partner_id: int, lock: Callable[[], Work], ended: Sequence[Ended] = ()) -> Unit:
    isolate = partial(isolate_link, partner_id, ended=attempts_of(ended))
    return Unit(f"the link to partner {partner_id}", lock, isolate, ended, partner_id)


def keep(links: OutboundLinks, jobs: Iterable[Job]) -> list[Job]:
    """Write with `links` that these are being sent: from then on their deadline counts. Those that
    others have claimed, that are not to be sent any more, or that have lapsed unbegun are not among
    what is returned."""
    kept = []
    for job in jobs:
        copy = job.key
        if not isinstance(copy, LaneCopy) or copy.partner_id not in links:
            continue
        lane = links.lane(copy.partner_id)
        flying = lane.in_flight
        held = flying and (flying.message_id, flying.attempt) == (copy.message_id, copy.attempt)
        if held and lane.promised and _goes_out(job):
            begun = AttemptBegun(copy.message_id, copy.attempt, lease(job.deadline))
            links.step(copy.partner_id, begun)
            kept.append(job)
    return kept


def _goes_out(job: Job) -> bool:
    begun = job.lapse is not None and job.lapse.begun
    return begun or not job.is_late(time.monotonic() + COMMIT_MARGIN)


def _jobs_of(links: Work, claimed: Collection[int]) -> list[Job]:
    """The jobs that transmit the claimed copies, composing what was not composed before. A copy
    that cannot be made suspends its own lane and no other."""

    def make(row: CopyRow) -> Job:
        flying = links.lane(row.partner_id).flying
        body = compose(links, row, flying.sequence_number)
        deadline = flying.terms.http_deadline(settings.MSH_HTTP_DEADLINE)
        return _job_of(row, body, deadline, flying.attempt)

    def give_up(row: CopyRow, problem: Exception) -> None:
        attempt, why = links.lane(row.partner_id).flying.attempt, why_unsendable(problem)
        result = AttemptResult(AttemptOutcome.REFUSED, detail=why, body_sent=False)
        links.step(row.partner_id, event_of(row.message_id, attempt, result))
        links.end_attempt(row.id, attempt, result)

    rows = {row.id: row for row in links.copies if row.id in claimed}
    others = [key for key in claimed if key not in rows]
    return copies.jobs_of((*rows.values(), *polling.load_copies(others)), make, give_up)


def job_of_promised(row: PromisedCopy, deadline: float, asked_at: float) -> Job:
    """The job of a copy that was promised when it was `asked_at`. Raises what `why_unsendable`
    explains."""
    job = _job_of(row, stored_body(row), deadline, row.attempt)
    left = min(row.seconds_left, PROMISED_FOR.total_seconds())  # the clock may have been set back
    return replace(job, lapse=Lapse(asked_at + left))


def _job_of(row: CopyRow, body: bytes, deadline: float, attempt: int) -> Job:
    key = LaneCopy(row.id, row.message_id, row.partner_id, attempt)
    entity = Entity(wire.content_type(row.boundary), body)
    return copies.job_of(row, key, entity, deadline, message_id=row.message_id)


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
