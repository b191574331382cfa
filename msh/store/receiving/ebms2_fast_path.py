"""Fast path of ebMS 2.0: a new message without order is taken without a lock."""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError

from msh.faults import CrashPoint, reach
from msh.protocol import effects as do
from msh.protocol.ebms.agreement import Agreed
from msh.protocol.ebms.arrival import decide
from msh.protocol.ebms.message import MessageHeader, ReceivedMessage
from msh.store.cache import Cache
from msh.store.engine import Statement, run
from msh.store.partner_columns import PARTNER_AS_READ, PARTNER_IN_VERSION
from msh.store.sending.signals import LINK_THAT_STAYS
from partners.models import Partner

from . import message_sql
from .ebms2 import agreed_of, columns_of, event_at
from .ebms2_answers import Attribution, Pair, first_ack
from .ebms2_sql import (
    AGREEMENT_COLUMNS,
    KNOWN_COLUMNS,
    KNOWN_TABLES,
    AgreementRow,
    KnownRow,
)
from .message_sql import Accepted
from .pairs import SIGNAL_HORIZON
from .receiver_effects import one_payload, payload_columns


@dataclass(frozen=True)
class _Row(AgreementRow, KnownRow):
    """The link with what it knows of the message, and the agreement."""

    as_read: str | None
    agreement_version: str
    link_id: int


_LOAD = Statement(
    f"""
    SELECT {KNOWN_COLUMNS}, {PARTNER_AS_READ}, link.id AS link_id,
           agreement.xmin::text AS agreement_version, {AGREEMENT_COLUMNS}
    FROM msh_inboundlink link
    JOIN partners_agreement agreement
      ON agreement.partner_id = link.partner_id AND agreement.tpa_id = %(cpa_id)s
     AND agreement.dialect = 'ebms2'
    {KNOWN_TABLES}
    WHERE link.partner_id = %(partner_id)s
    """,
    _Row,
)


# The Acknowledgment is claimed for the worker that a wake-up will name it to, as with the draft.
# All that was decided by is proven. A copy that another transaction stores meanwhile has the
# MessageId: the constraint refuses this.
@dataclass(frozen=True, slots=True)
class _Accepted(Accepted):
    """`unreached`: the sender does not answer to what we send."""

    unreached: bool


def _accept(payloads: str) -> Statement[_Accepted]:
    stored = message_sql.insert_message(
        payloads,
        source="FROM proven",
        link_id=LINK_THAT_STAYS,
        agreement_id=message_sql.AGREEMENT_THAT_STAYS,
        state="'accepted'",
        received_at="statement_timestamp()",
        from_role="%(from_role)s",
        to_role="%(to_role)s",
        service_type="%(service_type)s",
    )
    return Statement(
        f"""
    WITH proven AS (
        SELECT WHERE {PARTNER_IN_VERSION}
          AND EXISTS (SELECT {message_sql.AGREEMENT_IN_VERSION})
          AND NOT EXISTS (
              SELECT FROM msh_inboundmessage
              WHERE link_id = %(link_id)s AND message_id = %(message_id)s)
          AND NOT EXISTS (
              SELECT FROM msh_signal
              WHERE link_id = %(link_id)s AND kind = 'Error'
                AND ref_to_message_id = %(message_id)s AND content_digest IS NOT NULL)),
    {stored},
    entry AS (
        {message_sql.message_arrived()} FROM proven),
    signal AS (
        INSERT INTO msh_signal
            (link_id, kind, ref_to_message_id, tpa_id, conversation_id, first_at, due, expires_at,
             sending, tries, content_type, body, kept, dialect, inbound_id)
        SELECT %(link_id)s, 'Acknowledgement', %(message_id)s, %(tpa_id)s, %(conversation_id)s,
               statement_timestamp(), statement_timestamp() + interval '1 second',
               statement_timestamp() + %(horizon)s * interval '1 second', true, 1, %(ack_type)s,
               %(ack)s, true, 'ebms2', id
        FROM message
        RETURNING id)
    SELECT id AS signal_id,
           EXISTS (SELECT FROM msh_consumer WHERE enabled AND kind <> 'pull') AS pushes,
           EXISTS (SELECT FROM msh_outboundlink WHERE partner_id = %(partner_id)s
                   AND suspended_for = 'partner_unreachable') AS unreached
    FROM signal
    """,
        _Accepted,
    )


_LONGEST = timedelta(minutes=1)
"""Longer than it takes to write a message that was read."""

_ACCEPT = _accept(message_sql.ONE_PAYLOAD)
_ACCEPT_PAYLOADS = _accept(message_sql.PAYLOADS)


FRESH = 60.0
"""Seconds for which an agreement is cached, and with it the database's clock."""


@dataclass(frozen=True, slots=True)
class _Agreement:
    """A cached agreement, and when it was read: `at` on the monotonic clock, `now` on the
    database's clock."""

    id: int
    version: str
    agreed: Agreed
    horizon: int
    link_id: int
    now: datetime
    at: float
    as_read: str
    """The version of its partner at that time."""

    def under(self, partner: Partner, *, unreached: bool = False) -> Attribution:
        return Attribution(partner, self.id, self.agreed, self.horizon, unreached)


_agreements: Cache[tuple[int, str], _Agreement] = Cache()
"""Cached agreements by partner and CPAId."""


def find_agreement(partner: Partner, header: MessageHeader) -> Attribution | None:
    """Return the agreement of a partner, which may be a cached one. None if the partner has changed
    since it was cached, or there is no such agreement."""
    read = _read(partner, header)
    return None if read is None else read[1].under(partner, unreached=read[0].unreached)


def _read(partner: Partner, header: MessageHeader) -> tuple[_Row, _Agreement] | None:
    load = _LOAD(
        partner_id=partner.pk,
        credential_id=partner.credential_id,
        cpa_id=header.cpa_id,
        message_id=header.message_id,
        rate=partner.rate_limit,
    )
    at = time.monotonic()
    (rows,) = run(load)
    # The cached partner is outdated: its credential may have been removed since.
    if not rows or rows[0].as_read != partner.as_read or not partner.in_use:
        return None
    row = rows[0]
    agreement = _Agreement(
        *(row.id, row.agreement_version, agreed_of(row), row.horizon, row.link_id, row.now, at),
        as_read=partner.as_read,
    )
    _agreements.put((partner.pk, header.cpa_id), agreement)
    return row, agreement


def _expires_soon(header: MessageHeader, now: datetime) -> bool:
    """Whether the message may expire while it is taken: of two copies one could be refused for its
    TimeToLive, so they are serialised by the lock."""
    return header.time_to_live is not None and header.time_to_live - now < _LONGEST


def accept_at_once(partner: Partner, received: ReceivedMessage) -> _Accepted | Attribution | None:
    """Take a new message and queue its Acknowledgment, in one statement, or two if its agreement
    has to be read. In all other cases nothing is done: returns the agreement, for
    `receive_message`, which takes the lock; or None if no agreement fits."""
    header = received.message.header
    if not partner.in_use:
        return None
    is_answered_later = not (received.message.sync_reply or received.message.answers)
    agreement = _agreements.get((partner.pk, header.cpa_id)) if is_answered_later else None
    if agreement and header.time_to_live is None and not partner.limits.any:
        age = time.monotonic() - agreement.at
        if age < FRESH and agreement.as_read == partner.as_read:
            # Nothing was read of this MessageId: `proven` in the statement checks that it is
            # unknown.
            unknown = _unknown(agreement.now + timedelta(seconds=age))
            if accepted := _accept_under(partner, agreement, unknown, received):
                return accepted
    if (read := _read(partner, header)) is None:
        return None
    row, agreement = read
    accepted = None
    if is_answered_later and not _expires_soon(header, row.now):
        accepted = _accept_under(partner, agreement, row, received)
    return accepted or agreement.under(partner, unreached=row.unreached)


def _unknown(now: datetime) -> KnownRow:
    return KnownRow(None, None, None, None, None, None, None, now)


def _accept_under(
    partner: Partner, agreement: _Agreement, row: KnownRow, received: ReceivedMessage
) -> _Accepted | None:
    found, message = agreement.under(partner), received.message
    pair = Pair(found, agreement.link_id, row)
    refers = found.agreed.checks_ref_to and message.header.ref_to_message_id
    if found.agreed.ordered or refers:  # of two copies one may come before what it refers to
        return None
    ruling = decide(received, found.agreed, event_at(pair, received))
    if ruling.effects != (do.Accept(None, None), do.QueueAck()) or ruling.notes:
        return None
    ack = first_ack(pair, message)
    one = len(received.payloads) == 1
    statement, columns = (_ACCEPT, one_payload) if one else (_ACCEPT_PAYLOADS, payload_columns)
    accept = statement(
        **columns_of(pair, received),
        **columns(received.payloads),
        partner_id=partner.pk,
        credential_id=partner.credential_id,
        as_read=partner.as_read,
        agreement_version=agreement.version,
        tpa_id=found.agreed.cpa_id,
        horizon=max(found.horizon, SIGNAL_HORIZON),
        ack_type=ack.content_type,
        ack=ack.body,
    )
    reach(CrashPoint.RECEIVE_BEFORE_COMMIT)
    try:
        (done,) = run(accept)
    except IntegrityError:  # a copy was stored at the same time
        return None
    reach(CrashPoint.RECEIVE_AFTER_COMMIT)
    return done[0] if done else None
