"""ebMS 2.0, what comes nearly always: a new message that is taken, without a lock."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError

from msh.faults import CrashPoint, reach
from msh.protocol import effects as do
from msh.protocol.ebms.arrival import decide
from msh.protocol.ebms.message import MessageHeader, ReceivedMessage
from msh.store.engine import Statement, run
from msh.store.history import insert_one
from msh.store.partner_columns import PARTNER_AS_READ
from partners.models import Partner

from . import message_sql
from .ebms2 import CODES, agreed_of, columns_of, event_at
from .ebms2_answers import Attribution, Pair, first_ack
from .ebms2_sql import AGREEMENT_COLUMNS, KNOWN_COLUMNS, KNOWN_TABLES, MESSAGE, KnownRow
from .message_sql import Accepted
from .receiver_effects import one_payload, payload_columns


@dataclass(frozen=True, slots=True)
class _Row(KnownRow):
    """The link with what it knows of the message, and the agreement."""

    as_read: str | None
    link_id: int
    id: int
    partner_id: int
    tpa_id: str
    our_party: str
    our_party_context: str
    their_party: str
    their_party_context: str
    our_role: str
    their_role: str
    ack: str
    eliminates: str
    lenient: list[str]
    sync_reply: str
    refuses_status: bool
    check_ref_to: bool
    ordered: bool
    horizon: int


_LOAD = Statement(
    f"""
    SELECT {KNOWN_COLUMNS}, {PARTNER_AS_READ}, link.id AS link_id, {AGREEMENT_COLUMNS}
    FROM msh_inboundlink link
    JOIN partners_agreement agreement
      ON agreement.partner_id = link.partner_id AND agreement.tpa_id = %(cpa_id)s
     AND agreement.dialect = 'ebms2'
    {KNOWN_TABLES}
    WHERE link.partner_id = %(partner_id)s
    """,
    _Row,
)

_ARRIVED = insert_one(
    at="%(received_at)s",
    partner_id="%(partner_id)s",
    direction="'in'",
    message_id="%(message_id)s",
    event="'MessageArrived'",
    to_state="'accepted'",
)


# The Acknowledgment is claimed for the worker that a wake-up will name it to, as with the draft.
# A copy that another transaction stores meanwhile has the MessageId: the constraint refuses this.
def _accept(payloads: str) -> Statement[Accepted]:
    return Statement(
        f"""
    WITH message AS ({MESSAGE}),
    parts AS (
        INSERT INTO msh_inboundpayload
            (message_id, position, content_type, content_id, label, description, content)
        {payloads}),
    entry AS (
        {_ARRIVED}),
    signal AS (
        INSERT INTO msh_signal
            (link_id, kind, ref_to_message_id, tpa_id, conversation_id, first_at, due, expires_at,
             sending, tries, content_type, body, kept, dialect)
        VALUES (%(link_id)s, 'Acknowledgement', %(message_id)s, %(tpa_id)s, %(conversation_id)s,
                %(received_at)s, %(received_at)s::timestamptz + interval '1 second',
                %(expires_at)s, true, 1, %(ack_type)s, %(ack)s, true, 'ebms2')
        ON CONFLICT (link_id, kind, code, ref_to_message_id) DO UPDATE
        SET pending = msh_signal.pending + 1, expires_at = EXCLUDED.expires_at,
            due = CASE WHEN msh_signal.sending THEN LEAST(msh_signal.due, EXCLUDED.due)
                       ELSE EXCLUDED.first_at END
        RETURNING id)
    SELECT id AS signal_id,
           EXISTS (SELECT FROM msh_consumer WHERE enabled AND kind <> 'pull') AS pushes
    FROM signal
    """,
        Accepted,
    )


_LONGEST = timedelta(minutes=1)
"""Longer than it takes to write a message that was read."""

_ACCEPT = _accept(message_sql.ONE_PAYLOAD)
_ACCEPT_PAYLOADS = _accept(message_sql.PAYLOADS)


def find_usual(partner: Partner, header: MessageHeader) -> Pair | None:
    """The pair of a partner that may only be remembered, with the agreement and what it knows of
    the message. None if the partner is not as it was found, or there is no such agreement."""
    load = _LOAD(
        partner_id=partner.pk,
        credential_id=partner.credential_id,
        cpa_id=header.cpa_id,
        message_id=header.message_id,
        codes=CODES,
        rate=partner.rate_limit,
    )
    (rows,) = run(load)
    if not rows or rows[0].as_read != partner.as_read or not partner.in_use:
        return None
    row = rows[0]
    return Pair(Attribution(partner, row.id, agreed_of(row), row.horizon), row.link_id, row)


def _expires_soon(header: MessageHeader, now: datetime) -> bool:
    """Of two copies one may be refused for its TimeToLive while the other is being taken: the
    lock has them take turns."""
    return header.time_to_live is not None and header.time_to_live - now < _LONGEST


def accept_if_usual(pair: Pair, received: ReceivedMessage) -> Accepted | None:
    """Take a new message and queue its Acknowledgment, in one statement. None, with nothing done,
    if there is anything else to it: then `receive_message` takes the lock."""
    message = received.message
    if message.sync_reply or _expires_soon(message.header, pair.row.now):
        return None
    if pair.found.agreed.ordered:
        return None
    ruling = decide(received, pair.found.agreed, event_at(pair, received))
    if ruling.effects != (do.Accept(None, None), do.QueueAck()) or ruling.notes:
        return None
    ack = first_ack(pair, message)
    one = len(received.payloads) == 1
    statement, columns = (_ACCEPT, one_payload) if one else (_ACCEPT_PAYLOADS, payload_columns)
    accept = statement(
        **columns_of(pair, received),
        **columns(received.payloads),
        partner_id=pair.found.partner.pk,
        tpa_id=pair.found.agreed.cpa_id,
        expires_at=ack.expires_at,
        ack_type=ack.content_type,
        ack=ack.body,
    )
    reach(CrashPoint.RECEIVE_BEFORE_COMMIT)
    try:
        (done,) = run(accept)
    except IntegrityError:  # a copy was stored at the same time
        return None
    reach(CrashPoint.RECEIVE_AFTER_COMMIT)
    return done[0]
