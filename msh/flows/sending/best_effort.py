"""BestEffort messages: one attempt each, outside the order of the link.

One of the kinds of `kinds.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings

from msh.flows.send_budget import SendBudget
from msh.flows.sending import copies, lanes
from msh.flows.sending.copies import ANSWER_LIMIT, UNSENDABLE, why_unsendable
from msh.flows.sending.kinds import Ended, Unit
from msh.flows.sending.one_by_one import found
from msh.flows.sending.proof import sealed_parts, signer_of
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store.incidents import processing_failed
from msh.store.sending import polling
from msh.store.sending.best_effort import end_best_effort, end_calls
from msh.store.sending.best_effort_sql import LEASE, BestEffortCopy, BestEffortRow
from msh.store.sending.isolation import isolate_best_effort
from msh.store.sending.links import OutboundLinks
from msh.store.sending.polling import Slots, Work
from msh.transport.job import GRACE, Job
from msh.wire.dialect import ComposeHead, Entity, dialect_named


def record(links: OutboundLinks, ended: Sequence[Ended]) -> None:
    end_best_effort((one.copy, one.result) for one in ended)


def claim(links: Work, budget: SendBudget) -> list[Job]:
    """Those whose worker was lost end, with an unknown outcome: there is never a second copy."""
    end_best_effort((lost, None) for lost in links.lost)
    deadline: float = settings.MSH_HTTP_DEADLINE
    until = links.now + timedelta(seconds=deadline + 2 * GRACE)

    def make(row: BestEffortRow) -> Job:
        links.add(LEASE(key=row.id, until=until))
        links.insert_attempt(row.id, 1)
        return _job_of(links, row, deadline)

    def give_up(row: BestEffortRow, problem: Exception) -> None:
        why = why_unsendable(problem)
        failed = AttemptResult(AttemptOutcome.FAILED, detail=why, body_sent=False)
        copy = BestEffortCopy(row.id, row.message_id, row.partner_id)
        links.add_all(end_calls(copy, failed, links.now))
        if not isinstance(problem, UNSENDABLE):
            about = (row.partner_id, "out", row.message_id, why, links.now)
            links.add_all(processing_failed(*about))

    keys = [row.id for row in links.best_effort if budget.reserve(row.partner_id, row.size)]
    return copies.jobs_of(polling.load_best_effort(keys), make, give_up)


def units_of_outcomes(ended: Sequence[Ended]) -> Iterable[Unit]:
    return [_unit(Work.none, one.copy, one) for one in ended]


def units_of_poll(slots: Slots) -> Iterable[Unit]:
    for row in found(partial(polling.lock_best_effort, slots)):
        copy = BestEffortCopy(row.id, row.message_id, row.partner_id)
        yield _unit(partial(polling.work_of_best_effort, row.id), copy)
    for lost in found(polling.lock_lost):
        yield _unit(partial(polling.work_of_lost, lost), lost)


def _unit(lock: Callable[[], Work], copy: BestEffortCopy, ended: Ended | None = None) -> Unit:
    isolate = partial(isolate_best_effort, copy, ended.result if ended else None)
    of_outcome = (ended,) if ended else ()
    return Unit(f"BestEffort message {copy.message_id}", lock, isolate, of_outcome)


def _job_of(links: OutboundLinks, row: BestEffortRow, deadline: float) -> Job:
    """One that flies in no dialect is composed as those are that fly in its own (EB-081)."""
    dialect, agreement_id, answer_limit = dialect_named(row.dialect), None, 0
    if dialect.compose_head is None:
        body = lanes.compose(links, row, None)
    else:
        compose = partial(_compose, dialect.compose_head, row, links.now)
        body = copies.body_of(links, row, compose, seal=partial(sealed_parts, row))
        agreement_id, answer_limit = row.agreement_id, ANSWER_LIMIT
    content_type = dialect.content_type(row.boundary, bool(row.wires))
    return copies.job_of(
        row,
        BestEffortCopy(row.id, row.message_id, row.partner_id, agreement_id),
        Entity(content_type, body, dialect.headers_of(row)),
        deadline,
        message_id=row.message_id,
        url=row.channel_address or "",
        answer_limit=answer_limit,
    )


def _compose(compose_head: ComposeHead, row: BestEffortRow, now: datetime) -> bytes:
    return compose_head(row, None, now, None, signer_of(row))
