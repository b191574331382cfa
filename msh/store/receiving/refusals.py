"""Refusals and signals that move nothing: each has rows of its own, and a partner can make as many
as it likes. Beyond what is allowed they are counted in one row of the history a minute."""

import logging
from dataclasses import dataclass
from datetime import datetime

import psycopg
from django.db import Error as DatabaseError

from msh.allowance import refusals
from msh.protocol.errors import RefusedTooOften
from msh.protocol.kinds import IncidentKind
from msh.protocol.reason import Refusal
from msh.protocol.vocabulary import ErrorCode
from msh.store import history, incidents
from msh.store.clock import read_clock
from msh.store.engine import Call, Statement, run
from msh.store.history import LINK, MESSAGE, HistoryRow
from msh.store.sending.message_sql import FIND_SENT

logger = logging.getLogger(__name__)

REASON_LIMIT = 500  # characters


@dataclass(frozen=True, slots=True)
class _Known:
    known: bool


_IS_KNOWN = Statement(
    """
    SELECT EXISTS (
        SELECT FROM msh_signal
        WHERE link_id = %(link_id)s AND kind = 'Error' AND code = %(code)s
          AND ref_to_message_id = %(message_id)s AND inbound_id = 0) AS known
    """,
    _Known,
)


def spend_refusal(partner_id: int, link_id: int, code: str, message_id: str) -> None:
    """This message is to be answered by an Error Message. Raises RefusedTooOften.

    A partner that was asked to wait and comes again is not refused for good: that costs nothing.
    """
    if code == ErrorCode.TRANSIENT_ERROR:
        ((row,),) = run(_IS_KNOWN(link_id=link_id, code=code, message_id=message_id))
        if row.known:
            return
    if wait := refusals.wait(partner_id):
        raise RefusedTooOften(wait)
    refusals.spend(partner_id)


def may_record(partner_id: int) -> bool:
    if refusals.wait(partner_id):
        return False
    refusals.spend(partner_id)
    return True


def count_unanswered(partner_id: int) -> None:
    text = "too many are refused: 429 instead of an Error"
    _run_if_possible(_count(partner_id, "RefusalsNotAnswered", text))


def count_unrecorded(partner_id: int) -> None:
    run(_unrecorded(partner_id))


def _unrecorded(partner_id: int) -> Call[None]:
    return _count(partner_id, "SignalsNotNoted", "too many that move nothing")


def note_refused(partner_id: int, event: str, refusal: Refusal, reason: str) -> None:
    """A request or mail of this partner was refused before it was a message: an event of the link,
    one row a minute for each reason. It stays refused if the database takes nothing."""
    if may_record(partner_id):
        about = (partner_id, "in", event)
        row = HistoryRow(*about, code=refusal, detail=reason[:REASON_LIMIT], subject=LINK)
        _run_if_possible(history.insert_or_count(row))
    else:
        text = "too many requests are refused"
        _run_if_possible(_count(partner_id, "RefusalsNotNoted", text))


def _run_if_possible(call: Call[None]) -> None:
    try:
        run(call)
    except (DatabaseError, psycopg.Error) as error:
        logger.warning("the refusal of a request is not counted: %s", error)


def noted(
    partner_id: int,
    message_id: str,
    event: str,
    detail: str,
    direction: str = "in",
    code: str = "",
) -> Call[None]:
    """Return the statement that records something a partner has sent without effect: a row of its
    own, or one more in a count."""
    if not may_record(partner_id):
        return _unrecorded(partner_id)
    subject = MESSAGE if message_id else LINK
    about = (partner_id, direction, event, message_id)
    row = HistoryRow(*about, code=code, detail=detail, subject=subject)
    return history.insert_or_count(row)


def refusal_event(kind: str) -> str:
    """The event of a signal of the partner that we have refused. Without the prefix it is the one
    of a signal of ours that the partner has refused."""
    return f"Partner{kind}Refused"


def note(
    partner_id: int,
    message_id: str,
    event: str,
    detail: str,
    direction: str = "in",
    code: str = "",
) -> None:
    run(noted(partner_id, message_id, event, detail, direction, code))


def refuse_answer(partner_id: int, about: str, event: str, reason: str, code: str) -> bool:
    """An answer to a message of ours that flies, and that it therefore does not end: an operator
    has to know it, who would send the message again in vain. False if there is no such message."""
    (rows,) = run(FIND_SENT(partner_id=partner_id, message_id=about))
    if not any(row.state == "flying" for row in rows):
        return False
    run(*answer_refused(partner_id, about, event, reason, read_clock(), code))
    return True


def answer_refused(
    partner_id: int, about: str, event: str, reason: str, now: datetime, code: str = ""
) -> list[Call[None]]:
    if not may_record(partner_id):
        return [_unrecorded(partner_id)]
    kind = IncidentKind.ANSWER_REFUSED
    # "in": resuming the link repairs nothing of it.
    new = incidents.NewIncident(partner_id, "in", kind, about, reason, now)
    row = HistoryRow(partner_id, "out", event, about, code=code, detail=reason, at=now)
    return [incidents.open_incident(new), history.insert_or_count(row)]


def _count(partner_id: int, event: str, detail: str) -> Call[None]:
    return history.insert_or_count(HistoryRow(partner_id, "in", event, detail=detail, subject=LINK))
