"""Fast path of ebMS 2.0: a new message is taken without a lock, if it is without order or the next
one of its conversation; agreement and conversation are not read if this process has cached them.

A cached row counts only together with a statement that finds it unchanged.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import chain
from typing import Any

from msh.pem import KeyUnusable
from msh.protocol import effects as do
from msh.protocol.ebms.agreement import Agreed, under
from msh.protocol.ebms.arrival import decide, order_of
from msh.protocol.ebms.message import Message, MessageHeader, ReceivedMessage
from msh.protocol.flight.conversation import Conversation, Position, position
from msh.protocol.flight.serial import Order
from msh.store.cache import Cache
from msh.store.engine import Call, Statement, run
from msh.store.partner_columns import PARTNER_AS_READ
from partners.models import Partner

from . import conversation_sql
from .accept import NEXT_OF_CONVERSATION, UNORDERED, Accepted, accept_if_unchanged
from .ebms2 import agreed_of, columns_of, event_at
from .ebms2_answers import Attribution, Pair, first_ack
from .ebms2_sql import (
    AGREEMENT_COLUMNS,
    KNOWN_COLUMNS,
    KNOWN_TABLES,
    AgreementRow,
    KnownRow,
)
from .pairs import SIGNAL_HORIZON


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


_LONGEST = timedelta(minutes=1)
"""Longer than it takes to write a message that was read."""

Opened = Callable[[Agreed], ReceivedMessage]

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

    def of(self, header: MessageHeader) -> "_Agreement":
        """With the terms of the channel of this message."""
        agreed = under(self.agreed, header)
        return self if agreed is self.agreed else replace(self, agreed=agreed)

    def under(self, partner: Partner, *, unreached: bool = False) -> Attribution:
        return Attribution(partner, self.id, self.agreed, self.horizon, unreached)


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A conversation as it was read or written last, and the version of its partner at that
    time."""

    id: int
    version: str
    value: Conversation
    as_read: str


_agreements: Cache[tuple[int, str], _Agreement] = Cache()
"""Cached agreements by partner and CPAId."""
_conversations: Cache[tuple[int, bytes], _Conversation] = Cache()
"""Cached conversations by agreement and digest: a ConversationId may have any length."""


def _key(agreement: _Agreement, header: MessageHeader) -> tuple[int, bytes]:
    return agreement.id, sha256(header.conversation_id.encode()).digest()


def find_agreement(partner: Partner, message: Message) -> Attribution | None:
    """Return the agreement of a partner, which may be a cached one. None if the partner has changed
    since it was cached, or there is no such agreement."""
    read = _read(partner, message)
    return None if read is None else read[1].under(partner, unreached=read[0].unreached)


def _read(partner: Partner, message: Message) -> tuple[_Row, _Agreement] | None:
    """Read, and cache, the agreement of a message and its conversation, if it is in order."""
    header = message.header
    load: list[Call[Any]] = [
        _LOAD(
            partner_id=partner.pk,
            credential_id=partner.credential_id,
            cpa_id=header.cpa_id,
            message_id=header.message_id,
            rate=partner.rate_limit,
        )
    ]
    if message.order is not None:
        about = {"cpa_id": header.cpa_id, "conversation_id": header.conversation_id}
        load.append(conversation_sql.READ(partner_id=partner.pk, **about))
    at = time.monotonic()
    read: Sequence[list[Any]] = run(*load)
    rows, *conversations = read
    # The cached partner is outdated: its credential may have been removed since.
    if not rows or rows[0].as_read != partner.as_read or not partner.in_use:
        return None
    row: _Row = rows[0]
    agreement = _Agreement(
        *(row.id, row.agreement_version, agreed_of(row), row.horizon, row.link_id, row.now, at),
        as_read=partner.as_read,
    )
    _agreements.put((partner.pk, header.cpa_id), agreement)
    agreement = agreement.of(header)
    for one in chain(*conversations):
        conversation = _Conversation(one.id, one.version, one.value, partner.as_read)
        _conversations.put(_key(agreement, header), conversation)
    return row, agreement


def _expires_soon(header: MessageHeader, now: datetime) -> bool:
    """Whether the message may expire while it is taken: of two copies one could be refused for its
    TimeToLive, so they are serialised by the lock."""
    return header.time_to_live is not None and header.time_to_live - now < _LONGEST


def accept_at_once(
    partner: Partner, received: ReceivedMessage, opened: Opened
) -> Accepted | Attribution | None:
    """Take a new message, the next one of its conversation if it is in order, and queue its
    Acknowledgment: in one statement, or two if what it is decided by has to be read. In all other
    cases nothing is done: returns the agreement, for `receive_message`, which takes the lock; or
    None if no agreement fits. `opened`: the message as it is under the terms, verified and
    decrypted."""
    header = received.message.header
    if not partner.in_use:
        return None
    is_answered_later = not (received.message.sync_reply or received.message.answers)
    agreement = _agreements.get((partner.pk, header.cpa_id)) if is_answered_later else None
    if agreement and header.time_to_live is None and not partner.limits.any:
        age = time.monotonic() - agreement.at
        if age < FRESH and agreement.as_read == partner.as_read:
            # Nothing was read of this MessageId: the statement checks that it is unknown.
            now = agreement.now + timedelta(seconds=age)
            unknown = KnownRow(None, None, None, None, None, None, None, now)
            agreement = agreement.of(header)
            if accepted := _accept_under(partner, agreement, unknown, opened(agreement.agreed)):
                return accepted
    if (read := _read(partner, received.message)) is None:
        return None
    row, agreement = read
    accepted = None
    if is_answered_later and not _expires_soon(header, row.now):
        accepted = _accept_under(partner, agreement, row, opened(agreement.agreed))
    return accepted or agreement.under(partner, unreached=row.unreached)


def _accept_under(
    partner: Partner, agreement: _Agreement, row: KnownRow, received: ReceivedMessage
) -> Accepted | None:
    agreed, header = agreement.agreed, received.message.header
    if agreed.checks_ref_to and header.ref_to_message_id:
        return None  # of two copies one may come before what it refers to
    order, conversation = order_of(received, agreed), None
    if order is not None:
        conversation = _conversation_before(partner, agreement, header, order)
        if conversation is None:
            return None
    pair = Pair(agreement.under(partner), agreement.link_id, row)
    before = conversation.value if conversation else Conversation()
    after, ruling = decide(received, agreed, event_at(pair, received), before, now=row.now)
    accept = do.Accept(order.number if order else None, None)
    if ruling.effects != (accept, do.QueueAck()) or ruling.notes:
        return None
    try:
        values = _values(agreement, pair, received)
    except KeyUnusable:  # whether we can sign was read with the agreement, and is read again
        return None
    if conversation is None:
        return accept_if_unchanged(UNORDERED, partner, received.payloads, values)
    values |= {
        "detail": f"number {accept.sequence_number}",
        "ordered_in_id": conversation.id,
        "version": conversation.version,
        "order_number": accept.sequence_number,
        "next_number": after.next_number,
    }
    accepted = accept_if_unchanged(NEXT_OF_CONVERSATION, partner, received.payloads, values)
    if accepted is not None:
        stored = replace(conversation, version=accepted.version, value=after)
        _conversations.put(_key(agreement, header), stored)
    return accepted


def _conversation_before(
    partner: Partner, agreement: _Agreement, header: MessageHeader, order: Order
) -> _Conversation | None:
    """The cached conversation, if this number is the next one: all others need the lock."""
    found = _conversations.get(_key(agreement, header))
    if found is None or found.as_read != partner.as_read:
        return None
    return found if position(found.value, order) is Position.NEXT else None


def _values(agreement: _Agreement, pair: Pair, received: ReceivedMessage) -> dict[str, object]:
    ack = first_ack(pair, received)
    return columns_of(pair, received) | {
        "agreement_version": agreement.version,
        "tpa_id": agreement.agreed.cpa_id,
        "horizon": max(agreement.horizon, SIGNAL_HORIZON),
        "detail": "",
        "ack_type": ack.content_type,
        "ack": ack.body,
    }
