"""Application → MSH, by the thousand: what `submit` does to one message, in one transaction."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import psycopg
from django.db import IntegrityError, OperationalError, transaction

from msh import trace_hook
from msh.faults import CrashPoint, reach
from msh.flows.sending.submit import AgreementEnded, MessageIdReused, PartnerClosed
from msh.flows.wake_up import WakeUp, wake_up
from msh.protocol.reason import Refusal
from msh.store.sending.bulk_insert import find_known, insert_messages
from msh.store.sending.submission_sql import Parents
from msh.store.sending.submissions import NewMessage, lock_parents

_UNDONE = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


class InTheWay(Exception):
    """Others write the same. Nothing was kept."""


class Result(StrEnum):
    ACCEPTED = "accepted"
    KNOWN = "known"
    REFUSED = "refused"
    NOT_NOW = "not_now"
    """Submissions to its partner are refused for now: all lines that are not known."""
    NOT_SENT = "not_sent"
    """One of its pair was refused before it, and the order is to be kept."""


class Answer(NamedTuple):
    """What became of a message; why, in words and as a code, and which field is wrong, if it was
    not kept."""

    message_id: str
    result: Result
    reason: str = ""
    code: Refusal | None = None
    field: str = ""
    meant: frozenset[int] | None = frozenset()
    """Of a message that was refused, the ids of the agreements it may be under; None: any."""


_REUSED = (
    "message_id: it was submitted before with other content; use a new one for the changed message"
)

_BEHIND = (
    "not stored: a message before it to the same partner under the same agreement was refused;"
    " correct that one, then send both"
)

Entry = NewMessage | Answer
"""A message, or the answer to one that was refused before it got here."""


def submit_all(blocks: Iterable[Sequence[Entry]], *, stop_at_refused: bool = False) -> list[Answer]:
    """Keep all messages that are not known, in this order and together; an answer to each entry.
    `stop_at_refused`: but for those behind a refused one of their pair of partner and agreement.

    The first try takes every message for a new one, which it nearly always is. If one is known, or
    others are in the way, `blocks` is iterated again, and known messages are looked up. Raises
    InTheWay if others are in the way of that too; any other error of the database as it is, and
    then nobody knows what was kept.
    """
    try:
        answers = _together(blocks, _Transaction(stop_at_refused, look_up=False))
    except InTheWay:
        answers = _together(blocks, _Transaction(stop_at_refused, look_up=True))
    wake_up(WakeUp.TRANSMIT)
    return answers


def _together(blocks: Iterable[Sequence[Entry]], keeper: "_Transaction") -> list[Answer]:
    try:
        with transaction.atomic():
            answers = [answer for block in blocks for answer in keeper.keep(block)]
            if keeper.traced and trace_hook.recorder is not None:
                transaction.on_commit(partial(trace_hook.recorder.submitted_many, keeper.traced))
            reach(CrashPoint.SUBMIT_BEFORE_COMMIT)
    except (IntegrityError, OperationalError) as error:
        if isinstance(error, IntegrityError) or isinstance(error.__cause__, _UNDONE):
            raise InTheWay from error
        raise
    reach(CrashPoint.SUBMIT_AFTER_COMMIT)
    return answers


class _Transaction:
    """What one has seen so far: parents by agreement id, digests by link id and MessageId."""

    def __init__(self, stop_at_refused: bool, *, look_up: bool) -> None:
        self._stops = stop_at_refused
        self._stopped: set[int] = set()
        """Agreements."""
        self._all_stopped = False
        self._look_up = look_up
        self._parents: dict[int, Parents] = {}
        self._digests: dict[tuple[int, str], bytes] = {}
        self.traced: list[tuple[str, int]] = []
        """MessageId and partner of those that are kept."""

    def keep(self, block: Sequence[Entry]) -> list[Answer]:
        self._prepare([entry for entry in block if isinstance(entry, NewMessage)])
        answers: list[Answer] = []
        fresh: list[NewMessage] = []
        for entry in block:
            if isinstance(entry, Answer):
                answers.append(entry)
                self._stop(entry.meant)
                continue
            agreement_id = entry.heading.agreement_id
            parents = self._parents[agreement_id]
            key = (parents.link_id, entry.message_id)
            digest = self._digests.get(key)
            if digest == entry.content_digest:
                answers.append(Answer(entry.message_id, Result.KNOWN))
            elif digest is not None:
                self._stop(frozenset({agreement_id}))
                refused = (Result.REFUSED, _REUSED, MessageIdReused.code, "message_id")
                answers.append(Answer(entry.message_id, *refused))
            elif self._all_stopped or agreement_id in self._stopped:
                behind = (Result.NOT_SENT, _BEHIND, Refusal.BEHIND_REFUSED)
                answers.append(Answer(entry.message_id, *behind))
            elif parents.ended:
                self._stop(frozenset({agreement_id}))
                ended = str(AgreementEnded(entry.heading.agreement))
                refused = (Result.REFUSED, ended, AgreementEnded.code, "tpa_id")
                answers.append(Answer(entry.message_id, *refused))
            elif not parents.accepts:
                closed = str(PartnerClosed(entry.heading.agreement.partner))
                code = PartnerClosed.code
                answers.append(Answer(entry.message_id, Result.NOT_NOW, closed, code))
            else:
                self._digests[key] = entry.content_digest
                fresh.append(entry)
                answers.append(Answer(entry.message_id, Result.ACCEPTED))
        if fresh:
            insert_messages(fresh, self._parents)
            if trace_hook.recorder is not None:
                self.traced += [(one.message_id, one.heading.agreement.partner_id) for one in fresh]
        return answers

    def _stop(self, agreements: frozenset[int] | None) -> None:
        """Keep no later message under these agreements. Raises InTheWay if those that are known
        were not looked up: they are told from the others."""
        if not self._stops or agreements == frozenset():
            return
        if not self._look_up:
            raise InTheWay
        if agreements is None:
            self._all_stopped = True
        else:
            self._stopped |= agreements

    def _prepare(self, new: Sequence[NewMessage]) -> None:
        named = {one.heading.agreement_id: one.heading.agreement for one in new}
        missing = {key: named[key] for key in named.keys() - self._parents.keys()}
        if missing:
            self._parents |= lock_parents(missing)
        if named.keys() - self._parents.keys():
            raise InTheWay("an agreement was deleted in the meantime")
        # Where no new messages are taken, those that are known are told from the others.
        parents = [self._parents[key] for key in named]
        if self._look_up or any(one.ended or not one.accepts for one in parents):
            keys = [
                (self._parents[one.heading.agreement_id].link_id, one.message_id) for one in new
            ]
            self._digests |= find_known(keys)
