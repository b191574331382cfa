"""Application → MSH, by the thousand: what `submit` does to one message, in one transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import psycopg
from django.db import Error as DatabaseError
from django.db import IntegrityError, OperationalError, transaction

from msh.faults import CrashPoint, reach
from msh.flows import advance
from msh.flows.advance import NewMessage
from msh.flows.nudge import Nudge, nudge
from msh.models import OutboundLink, hot

_PASSING = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)

_KNOWN = """
    SELECT known.link_id, known.message_id, known.content_digest
    FROM unnest(%s::bigint[], %s::text[]) AS asked (link_id, message_id)
    JOIN msh_outboundmessage known USING (link_id, message_id)
"""


class Result(StrEnum):
    ACCEPTED = "accepted"
    KNOWN = "known"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one message; why, if it was refused."""

    result: Result
    reason: str = ""


_REUSED = Answer(
    Result.REFUSED,
    "message_id: it was submitted before with other content, give the changed message another",
)


def submit_all(new: Sequence[NewMessage]) -> list[Answer]:
    """Keep all that are not known, together, in this order; an answer for each.

    Raises IntegrityError or OperationalError, with nothing kept, if it was in the way of others
    twice: try again later.
    """
    links = _links(new)
    for last in (False, True):
        try:
            answers = _once(new, links)
            break
        except (IntegrityError, OperationalError) as error:
            if last or not _may_pass(error):
                raise
    nudge(Nudge.CARRY)
    return answers


def _may_pass(error: DatabaseError) -> bool:
    return isinstance(error, IntegrityError) or isinstance(error.__cause__, _PASSING)


def _once(new: Sequence[NewMessage], links: dict[int, int]) -> list[Answer]:
    with transaction.atomic():
        digests = _known(new, links)
        answers, fresh = [], []
        for one in new:
            key = (links[one.message.agreement.partner_id], one.message.message_id)
            digest = bytes(one.message.content_digest)
            if key not in digests:
                digests[key] = digest
                fresh.append(one)
                answers.append(Answer(Result.ACCEPTED))
            else:
                answers.append(Answer(Result.KNOWN) if digests[key] == digest else _REUSED)
        advance.submitted_many(fresh, links)
        reach(CrashPoint.SUBMIT_BEFORE_COMMIT)
    reach(CrashPoint.SUBMIT_AFTER_COMMIT)
    return answers


def _known(new: Iterable[NewMessage], links: dict[int, int]) -> dict[tuple[int, str], bytes]:
    asked = [(links[one.message.agreement.partner_id], one.message.message_id) for one in new]
    (rows,) = hot.run((_KNOWN, ([key for key, _ in asked], [name for _, name in asked])))
    return {(row.link_id, row.message_id): bytes(row.content_digest) for row in rows}


def _links(new: Iterable[NewMessage]) -> dict[int, int]:
    """Link id by partner id; what is made once a pair, is made."""
    partners = {one.message.agreement.partner_id: one.message.agreement.partner for one in new}
    used = OutboundLink.objects.filter(partner__in=list(partners), partner__in_use=True)
    links = dict(used.values_list("partner_id", "pk"))
    for key, partner in partners.items():
        if key not in links:
            with transaction.atomic():
                links[key] = advance.use_outbound_link(partner).pk
    return links
