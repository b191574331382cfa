"""Ping and StatusRequest of a partner: answered, and only counted (EB-140 to EB-145)."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from msh.models import SignalKind
from msh.protocol.ebms import signals
from msh.protocol.ebms.message import Message, StatusResponse
from msh.protocol.ebms.services import status_of
from msh.protocol.ebms.vocabulary import Kind
from msh.store import history
from msh.store.engine import Order, Statement, Write, run
from msh.store.history import LINK, HistoryRow
from msh.store.sending.signals import LINK_THAT_STAYS
from msh.wire.ebms2.envelope import compose_alone

from .ebms2_answers import Attribution, signal_about
from .ebms2_sql import KeptAnswer
from .pairs import inbound_link


@dataclass(frozen=True, slots=True)
class _Asked:
    """The link, and the message that is asked for, if the partner has sent it."""

    link_id: int
    state: str | None
    received_at: datetime | None
    now: datetime


_LOAD = Statement(
    """
    SELECT link.id AS link_id, known.state, known.received_at, clock_timestamp() AS now
    FROM msh_inboundlink link
    LEFT JOIN msh_inboundmessage known
           ON known.link_id = link.id AND known.message_id = %(message_id)s
    WHERE link.partner_id = %(partner_id)s
    """,
    _Asked,
)

# It expires at once, so that it is sent once (EB-147). A repeated question is answered anew when
# the last answer is gone.
_QUEUE = Write(
    f"""
    INSERT INTO msh_signal
        (link_id, kind, ref_to_message_id, tpa_id, conversation_id, first_at, due, expires_at,
         content_type, body, dialect)
    VALUES ({LINK_THAT_STAYS}, %(kind)s, %(message_id)s, %(tpa_id)s, %(conversation_id)s, %(at)s,
            %(at)s, %(at)s, %(content_type)s, %(body)s, 'ebms2')
    ON CONFLICT (inbound_id, link_id, kind, code, ref_to_message_id) DO UPDATE
    SET pending = 1, tries = 0, due = EXCLUDED.due, expires_at = EXCLUDED.expires_at,
        content_type = EXCLUDED.content_type, body = EXCLUDED.body
    WHERE msh_signal.pending = 0
    """,
    order=Order.SIGNAL,
)

_ANSWERS = {Kind.PING: SignalKind.PONG, Kind.STATUS_REQUEST: SignalKind.STATUS_RESPONSE}


def answer_question(found: Attribution, message: Message) -> KeptAnswer | None:
    """The answer, if the question asks for it on its connection; else it is queued."""
    header, partner_id = message.header, found.partner.pk
    asked = _load(partner_id, message.status_request)
    content_type, body = compose_alone(_answer(found, message, asked))
    count = HistoryRow(
        partner_id, "in", f"{header.kind}Received", subject=LINK, detail="answered", at=asked.now
    )
    if message.sync_reply:
        run(history.insert_or_count(count))
        return KeptAnswer(content_type, body)
    queue = _QUEUE(
        link_id=asked.link_id,
        kind=_ANSWERS[header.kind],
        message_id=header.message_id,
        tpa_id=header.cpa_id,
        conversation_id=header.conversation_id,
        at=asked.now,
        content_type=content_type,
        body=body,
    )
    with transaction.atomic():
        run(queue, history.insert_or_count(count))
    return None


def _load(partner_id: int, message_id: str) -> _Asked:
    while True:
        (rows,) = run(_LOAD(partner_id=partner_id, message_id=message_id))
        if rows:
            return rows[0]
        inbound_link(partner_id)


def _answer(found: Attribution, message: Message, asked: _Asked) -> Message:
    header = message.header
    about = (asked.now, header.message_id, header.conversation_id)
    if header.kind is Kind.PING:
        return signals.pong(signal_about(found, Kind.PONG, *about))
    signal = signal_about(found, Kind.STATUS_RESPONSE, *about)
    status = status_of(asked.state, refuses=found.agreed.refuses_status)
    at = asked.received_at if status.is_known else None
    return signals.status_response(signal, StatusResponse(message.status_request, status, at))
