"""The copy that an Acknowledgement makes ready: composed by the transaction that takes the
Acknowledgement, claimed by the worker that its wake-up reaches, in one statement.

What the claim decides is decided when the copy is made ready, by the Sender's table as for every
claim. It holds for the version of the link that was written then: a link that anybody has changed
since is polled for, as is one whose wake-up was lost.
"""

import logging
from collections.abc import Collection, Iterable

from django.conf import settings
from django.db import DatabaseError

from msh.flows.names import Ready
from msh.flows.sending import transmit
from msh.flows.sending.transmit import Copy, grace, why_unsendable
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.events import AttemptClaimed
from msh.store.sending import polling
from msh.store.sending.links import OutboundLinks
from msh.store.sending.message_sql import CopyRow, EndedAttempt, ReadyCopy
from msh.transport.carrier import Finished
from msh.transport.job import Job

logger = logging.getLogger(__name__)


def compose(links: OutboundLinks, partner_id: int, copy: CopyRow | None) -> Ready | None:
    """Compose `copy` if it is of the message that has just been put in flight, to be written with
    `links`. What the wake-up has to name, as soon as the version that is written is known; None if
    a worker has to look for itself."""
    lane = links.lane(partner_id)
    flying = lane.in_flight
    if copy is None or flying is None or flying.message_id != copy.message_id or not lane.unsent:
        return None
    try:
        transmit.compose(links, copy, flying.sequence_number)
    except (DatabaseError, MemoryError):
        raise
    except Exception:  # noqa: BLE001  the worker finds the same, and suspends the link
        return None
    deadline = flying.terms.http_deadline(settings.MSH_HTTP_DEADLINE)
    claimed = links.after(partner_id, AttemptClaimed(grace(deadline) + deadline))
    due_in = ((claimed.due or links.now) - links.now).total_seconds()
    return Ready(partner_id, 0, copy.id, claimed.flying.attempt, deadline, due_in)


def recorded_by(named: Collection[Ready], finished: Iterable[Finished]) -> dict[int, EndedAttempt]:
    """Which of the POSTs that have `finished`, by `id`, a claim of the `named` copies may record: a
    plain 2xx to the message that was in flight before. That one is complete, so it changes nothing
    but the attempt."""
    following = {one.partner_id: one.key for one in named}
    found = {}
    for one in finished:
        copy, result = one.job.key, one.outcome
        if not isinstance(copy, Copy) or copy.attempt is None or result.status is None:
            continue
        is_before = following.get(copy.partner_id, copy.key) != copy.key
        if is_before and result == AttemptResult(AttemptOutcome.TRANSMITTED, result.status):
            ended = EndedAttempt(copy.partner_id, copy.key, copy.attempt, result.status)
            found[id(one)] = ended
    return found


def claim(named: Collection[Ready], ended: Collection[EndedAttempt]) -> list[ReadyCopy]:
    """Claim them, in a transaction of its own. Those that have changed since are not among them. To
    the partners of the others, these attempts are recorded as `ended`."""
    return polling.claim_ready(
        [one.partner_id for one in named],
        [str(one.version) for one in named],
        [one.key for one in named],
        [one.attempt for one in named],
        [one.due_in for one in named],
        ended,
    )


def jobs_of(
    copies: Iterable[ReadyCopy], named: Iterable[Ready]
) -> tuple[list[Job], list[Finished]]:
    """The jobs that transmit claimed copies; and those that have ended already, because they cannot
    be transmitted."""
    deadlines = {(one.key, one.attempt): one.deadline for one in named}
    jobs, ended = [], []
    for row in copies:
        try:
            jobs.append(transmit.job_of_ready(row, deadlines[row.id, row.attempt]))
        except (DatabaseError, MemoryError):
            raise
        except Exception as problem:  # noqa: BLE001  one message stops no other
            ended.append(_unsendable(row, why_unsendable(problem)))
    return jobs, ended


def _unsendable(row: ReadyCopy, why: str) -> Finished:
    key = Copy(row.id, row.message_id, row.partner_id, row.attempt)
    job = Job(
        key=key,
        partner_id=row.partner_id,
        url="",
        content_type="",
        body=b"",
        authorization="",
        deadline=0.0,
        not_after=0.0,
    )
    return Finished(job, AttemptResult(AttemptOutcome.REFUSED, detail=why, body_sent=False))
