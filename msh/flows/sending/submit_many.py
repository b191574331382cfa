"""Application → MSH, by the thousand: what `submit` does to one message, in one transaction."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import psycopg
from django.db import IntegrityError, OperationalError, transaction

from msh.faults import CrashPoint, reach
from msh.flows.sending.submit import PartnerClosed
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import OutboundLink
from msh.store.sending.bulk_insert import find_known, insert_messages
from msh.store.sending.submissions import NewMessage, use_outbound_link
from partners.models import Partner

_UNDONE = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


class InTheWay(Exception):
    """Others write the same. Nothing was kept."""


class Result(StrEnum):
    ACCEPTED = "accepted"
    KNOWN = "known"
    REFUSED = "refused"
    NOT_NOW = "not_now"
    """Submissions to its partner are refused for now: all lines that are not known."""


class Answer(NamedTuple):
    """What became of a message; why, if it was not kept."""

    message_id: str
    result: Result
    reason: str = ""


_REUSED = (
    "message_id: it was submitted before with other content; use a new one for the changed message"
)

Entry = NewMessage | Answer
"""A message, or the answer to one that was refused before it got here."""


def submit_all(blocks: Iterable[Sequence[Entry]]) -> list[Answer]:
    """Keep all messages that are not known, in this order and together; an answer to each entry.

    `blocks` is iterated again if the first try was in the way of others. Raises InTheWay if the
    second was too; any other error of the database as it is, and then nobody knows what was kept.
    """
    try:
        answers = _together(blocks)
    except InTheWay:
        answers = _together(blocks)
    wake_up(WakeUp.TRANSMIT)
    return answers


def _together(blocks: Iterable[Sequence[Entry]]) -> list[Answer]:
    try:
        with transaction.atomic():
            links = _Links()
            answers = [answer for block in blocks for answer in _kept(block, links)]
            reach(CrashPoint.SUBMIT_BEFORE_COMMIT)
    except (IntegrityError, OperationalError) as error:
        if isinstance(error, IntegrityError) or isinstance(error.__cause__, _UNDONE):
            raise InTheWay from error
        raise
    reach(CrashPoint.SUBMIT_AFTER_COMMIT)
    return answers


def _kept(block: Sequence[Entry], links: "_Links") -> list[Answer]:
    new = [entry for entry in block if isinstance(entry, NewMessage)]
    links.look_up(one.agreement.partner for one in new)
    digests = _known(new, links)
    answers: list[Answer] = []
    fresh: list[NewMessage] = []
    for entry in block:
        if isinstance(entry, Answer):
            answers.append(entry)
            continue
        key = (links[entry.agreement.partner_id], entry.message_id)
        digest = digests.get(key)
        if digest is None and entry.agreement.partner_id in links.closed:
            closed = str(PartnerClosed(entry.agreement.partner))
            answers.append(Answer(entry.message_id, Result.NOT_NOW, closed))
            continue
        if digest is None:
            digests[key] = entry.content_digest
            fresh.append(entry)
        answers.append(_answer(entry, digest))
    if fresh:
        insert_messages(fresh, links)
    return answers


def _answer(new: NewMessage, digest: bytes | None) -> Answer:
    if digest is None:
        return Answer(new.message_id, Result.ACCEPTED)
    if digest == new.content_digest:
        return Answer(new.message_id, Result.KNOWN)
    return Answer(new.message_id, Result.REFUSED, _REUSED)


def _known(new: Sequence[NewMessage], links: "_Links") -> dict[tuple[int, str], bytes]:
    return find_known([(links[one.agreement.partner_id], one.message_id) for one in new])


class _Links(dict[int, int]):
    """Link id by partner id. `closed`: partners that submissions are refused to."""

    def __init__(self) -> None:
        super().__init__()
        self.closed: set[int] = set()

    def look_up(self, partners: Iterable[Partner]) -> None:
        missing = {partner.pk: partner for partner in partners if partner.pk not in self}
        used = OutboundLink.objects.filter(partner__in=list(missing), partner__in_use=True)
        self.update(used.values_list("partner_id", "pk") if missing else ())
        for key, partner in missing.items():
            if key not in self:
                self[key] = use_outbound_link(partner).pk
        closed = Partner.objects.filter(pk__in=list(missing), accepts=False)
        self.closed.update(closed.values_list("pk", flat=True) if missing else ())
