"""Conversations whose messages we deliver in order, and their messages. Who reads one to change it
has locked its link, so that nobody else changes it; the lock of its row keeps it from retention."""

from dataclasses import dataclass
from datetime import datetime

from msh.protocol.flight.conversation import Conversation
from msh.store.engine import Key, Order, Statement, Write
from msh.store.history import insert_one


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """`held`: numbers of the messages that wait for one before them. `undelivered`: others wait
    for their consumer. `horizon`: seconds that a hole may stay before an operator is called."""

    id: int
    link_id: int
    partner_id: int
    agreement_id: int
    conversation_id: str
    next_number: int | None
    due: datetime | None
    called: bool
    held: list[int]
    undelivered: bool
    horizon: int
    version: str
    now: datetime

    @property
    def value(self) -> Conversation:
        return Conversation(self.next_number, frozenset(self.held), self.due, self.called)


@dataclass(frozen=True, kw_only=True)
class ConversationState:
    """The columns that `INSERT` and `UPDATE` write. `released`: held messages are delivered now."""

    next_number: int | None
    due: datetime | None
    called: bool
    released: bool
    at: datetime


_LOAD = """
    SELECT conversation.id, conversation.link_id, agreement.partner_id, conversation.agreement_id,
           conversation.conversation_id, conversation.next_number, conversation.due,
           conversation.called,
           ARRAY(SELECT order_number FROM msh_inboundmessage
                 WHERE ordered_in_id = conversation.id AND state = 'held') AS held,
           EXISTS (SELECT FROM msh_inboundmessage
                   WHERE state = 'accepted' AND link_id = conversation.link_id
                     AND ordered_in_id = conversation.id) AS undelivered,
           agreement.retry_interval + agreement.retries * agreement.retry_interval AS horizon,
           conversation.xmin::text AS version, clock_timestamp() AS now
    FROM msh_inboundconversation conversation
    JOIN partners_agreement agreement ON agreement.id = conversation.agreement_id
"""
LOAD = Statement(
    f"""
    {_LOAD}
    WHERE conversation.agreement_id = %(agreement_id)s
      AND md5(conversation.conversation_id) = md5(%(conversation_id)s)
    FOR NO KEY UPDATE OF conversation
    """,
    ConversationRow,
)
READ = Statement(
    f"""
    {_LOAD}
    WHERE agreement.partner_id = %(partner_id)s AND agreement.tpa_id = %(cpa_id)s
      AND agreement.dialect = 'ebms2'
      AND md5(conversation.conversation_id) = md5(%(conversation_id)s)
    """,
    ConversationRow,
)
"""Without a lock: for a statement that writes only if the row still has this version."""
# One that is due later than twice its horizon is due now: the clock was set back (D13).
_IS_DUE = """
    conversation.due IS NOT NULL
    AND (conversation.due <= statement_timestamp()
         OR conversation.due > statement_timestamp()
            + interval '2 seconds' * (agreement.retry_interval
                                      + agreement.retries * agreement.retry_interval))
"""
LOAD_DUE = Statement(
    f"""
    {_LOAD} WHERE conversation.link_id = %(link_id)s AND {_IS_DUE}
    ORDER BY conversation.id FOR NO KEY UPDATE OF conversation
    """,
    ConversationRow,
)
FIND_DUE_LINKS = Statement(
    f"""
    SELECT DISTINCT conversation.link_id AS id
    FROM msh_inboundconversation conversation
    JOIN partners_agreement agreement ON agreement.id = conversation.agreement_id
    WHERE {_IS_DUE}
    ORDER BY id
    """,
    Key,
)
LOCK_FREE_LINK = Statement(
    "SELECT id FROM msh_inboundlink WHERE id = %(link_id)s FOR NO KEY UPDATE SKIP LOCKED", Key
)

INSERT = Statement(
    """
    INSERT INTO msh_inboundconversation
        (link_id, agreement_id, conversation_id, next_number, due, called, last_at)
    VALUES (%(link_id)s, %(agreement_id)s, %(conversation_id)s, %(next_number)s, %(due)s,
            %(called)s, %(at)s)
    RETURNING id
    """,
    Key,
)
UPDATE = Write(
    """
    UPDATE msh_inboundconversation
    SET next_number = %(next_number)s, due = %(due)s, called = %(called)s, last_at = %(at)s,
        released_at = CASE WHEN %(released)s THEN %(at)s ELSE released_at END
    WHERE id = %(key)s
    """
)

_LEFT = insert_one(
    at="%(at)s",
    partner_id="%(partner_id)s",
    direction="'in'",
    message_id="message.message_id",
    event="%(event)s",
    from_state="'held'",
    to_state="message.state",
    detail="%(detail)s",
    actor="%(actor)s",
)
# Its turn comes after those of all messages that are in the order already.
RELEASE = Write(
    f"""
    WITH message AS (
        UPDATE msh_inboundmessage
        SET state = 'accepted',
            turn = nextval(pg_get_serial_sequence('msh_inboundmessage', 'id'))
        WHERE ordered_in_id = %(key)s AND order_number = %(number)s AND state = 'held'
        RETURNING message_id, state)
    {_LEFT} FROM message
    """,
    order=Order.INBOUND_MESSAGE,
)
DROP = Write(
    f"""
    WITH message AS (
        UPDATE msh_inboundmessage SET state = 'rejected', delivered_at = %(at)s
        WHERE ordered_in_id = %(key)s AND order_number = %(number)s AND state = 'held'
        RETURNING message_id, state)
    {_LEFT} FROM message
    """,
    order=Order.INBOUND_MESSAGE,
)
# Of a partner's conversations one more may lack a number.
RESOLVE_IF_LAST = Write(
    """
    UPDATE msh_incident
    SET resolved_at = %(at)s, resolved_by = %(actor)s, resolution = %(resolution)s
    WHERE partner_id = %(partner_id)s AND direction = 'in' AND kind = %(kind)s
      AND resolved_at IS NULL
      AND NOT EXISTS (SELECT FROM msh_inboundconversation
                      WHERE link_id = %(link_id)s AND called AND id <> %(key)s)
    """,
    order=Order.INCIDENT,
)
