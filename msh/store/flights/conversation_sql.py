"""Conversations that are sent in order: found, locked after their flights, and written."""

from collections.abc import Sequence
from dataclasses import dataclass

from msh.store import incidents
from msh.store.engine import Order, Statement, Write


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """The value `Numbering`, and whose it is."""

    id: int
    partner_id: int
    tpa_id: str
    conversation_id: str
    next_number: int
    resets: bool
    unconfirmed: str
    stopped_by: Sequence[str]
    broken: bool


@dataclass(frozen=True, slots=True)
class Unsorted:
    """A new message that is sent in order, and that no worker has seen."""

    key: int
    link_id: int
    agreement_id: int
    conversation_id: str


@dataclass(frozen=True, slots=True)
class Queue:
    """Row ids of the oldest messages of a conversation that have no number."""

    id: int
    keys: Sequence[int]


@dataclass(frozen=True, slots=True)
class Outstanding:
    messages: int


@dataclass(frozen=True, kw_only=True)
class ConversationState:
    """What `WRITE` stores."""

    id: int
    state: str
    next_number: int
    resets: bool
    unconfirmed: str
    stopped_by: list[str]
    broken: bool


# Rows are compared where an equality would do, and ordered by all columns of the index: no other
# index gives that order, which one of the message ids alone would, by reading every flight.

# Waited for: what an operator holds at this moment would be overtaken by what was submitted later.
LOCK_UNSORTED = Statement(
    """
    WITH unsorted AS (
        SELECT next.message_id
        FROM unnest(%(link_ids)s::bigint[]) AS of (link_id) CROSS JOIN LATERAL (
            SELECT link_id, message_id FROM msh_flight
            WHERE waits_turn AND ordered_in_id IS NULL
              AND (link_id, message_id) > (of.link_id, 0)
            ORDER BY link_id, message_id LIMIT %(limit)s) next
        WHERE next.link_id = of.link_id)
    SELECT flight.message_id AS key, flight.link_id, message.agreement_id, message.conversation_id
    FROM (SELECT * FROM msh_flight
          WHERE message_id = ANY(ARRAY(SELECT message_id FROM unsorted)) AND waits_turn
          ORDER BY message_id FOR NO KEY UPDATE) flight
    JOIN msh_outboundmessage message ON message.id = flight.message_id
    """,
    Unsorted,
)

# A row that is there is locked, so that retention does not remove it meanwhile.
OPEN = Write(
    """
    INSERT INTO msh_outboundconversation (link_id, agreement_id, conversation_id, used_at)
    SELECT DISTINCT of.*, statement_timestamp()
    FROM unnest(%(link_ids)s::bigint[], %(agreement_ids)s::bigint[], %(conversation_ids)s::text[])
         AS of (link_id, agreement_id, conversation_id)
    ORDER BY agreement_id, conversation_id
    ON CONFLICT (agreement_id, conversation_id) DO UPDATE SET used_at = EXCLUDED.used_at
    """,
    order=Order.CONVERSATION,
)
SORT = Write(
    """
    UPDATE msh_flight flight SET ordered_in_id = conversation.id
    FROM msh_outboundmessage message
    JOIN msh_outboundconversation conversation USING (agreement_id, conversation_id)
    WHERE flight.message_id = ANY(%(keys)s) AND message.id = flight.message_id
    """,
    order=Order.FLIGHT,
)

# One that is held keeps back those behind it: then there is no head.
_HEAD = """(
    SELECT CASE WHEN oldest.state = 'ready' THEN oldest.message_id END
    FROM (SELECT state, message_id, ordered_in_id FROM msh_flight
          WHERE ordered_in_id IS NOT NULL
            AND (ordered_in_id, waits_turn, message_id) >= (conversation.id, true, 0)
          ORDER BY ordered_in_id, waits_turn, message_id LIMIT 1) oldest
    WHERE oldest.ordered_in_id = conversation.id)
"""
FIND_HEADS = Write(
    f"""
    UPDATE msh_outboundconversation conversation SET head = {_HEAD}
    WHERE id IN (SELECT ordered_in_id FROM msh_flight WHERE message_id = ANY(%(keys)s))
    """,
    order=Order.CONVERSATION,
)

_LOCK = """
    SELECT conversation.id, agreement.partner_id, agreement.tpa_id, conversation.conversation_id,
           conversation.next_number, conversation.resets, conversation.unconfirmed,
           conversation.stopped_by, conversation.broken
    FROM msh_outboundconversation conversation
    JOIN partners_agreement agreement ON agreement.id = conversation.agreement_id
"""
LOCK = Statement(
    f"""
    {_LOCK} WHERE conversation.id = ANY(%(ids)s)
    ORDER BY conversation.id FOR NO KEY UPDATE OF conversation
    """,
    ConversationRow,
)
LOCK_NAMED = Statement(
    f"""
    {_LOCK} WHERE conversation.agreement_id = %(agreement_id)s
      AND conversation.conversation_id = %(conversation_id)s
    FOR NO KEY UPDATE OF conversation
    """,
    ConversationRow,
)

# A statement of its own, after the lock: it must see what the lock's holder committed.
LOAD_QUEUES = Statement(
    """
    SELECT of.id, ARRAY(
        SELECT next.message_id
        FROM (SELECT ordered_in_id, message_id FROM msh_flight
              WHERE ordered_in_id IS NOT NULL
                AND (ordered_in_id, waits_turn, message_id) >= (of.id, true, 0)
              ORDER BY ordered_in_id, waits_turn, message_id LIMIT %(limit)s) next
        WHERE next.ordered_in_id = of.id ORDER BY next.message_id) AS keys
    FROM unnest(%(ids)s::bigint[]) AS of (id)
    """,
    Queue,
)

# Those that failed have no flight any more; they are among what has stopped it.
COUNT_OUTSTANDING = Statement(
    """
    SELECT (SELECT count(*) FROM msh_flight
            WHERE ordered_in_id = conversation.id AND NOT waits_turn)
         + (SELECT count(*) FROM msh_outboundmessage
            WHERE link_id = conversation.link_id AND message_id = ANY(conversation.stopped_by)
              AND state = 'failed') AS messages
    FROM msh_outboundconversation conversation WHERE id = %(id)s
    """,
    Outstanding,
)

WRITE = Write(
    f"""
    UPDATE msh_outboundconversation conversation
    SET state = %(state)s, next_number = %(next_number)s, resets = %(resets)s,
        unconfirmed = %(unconfirmed)s, stopped_by = %(stopped_by)s, broken = %(broken)s,
        used_at = statement_timestamp(), head = {_HEAD}
    WHERE id = %(id)s
    """,
    order=Order.CONVERSATION,
    many=Write(
        f"""
    UPDATE msh_outboundconversation conversation
    SET state = one.state, next_number = one.next_number, resets = one.resets,
        unconfirmed = one.unconfirmed, stopped_by = one.stopped_by, broken = one.broken,
        used_at = statement_timestamp(), head = {_HEAD}
    FROM json_to_recordset(%(rows)s::json)
         AS one (id bigint, state text, next_number int, resets bool, unconfirmed text,
                 stopped_by text[], broken bool)
    WHERE conversation.id = one.id
    """,
        order=Order.CONVERSATION,
    ),
)

GIVE_NUMBER = Write(
    "UPDATE msh_outboundmessage SET order_number = %(number)s WHERE id = %(key)s",
    order=Order.MESSAGE_AFTER_LINK,
)

# One incident stands for all of a partner: whoever finds the last of them running resolves it. The
# lock is a statement of its own, so that two who end at once see each other.
_LOCK_INCIDENTS = """
    SELECT id FROM msh_incident
    WHERE partner_id {} AND direction = 'out' AND kind = 'conversation_stopped'
      AND resolved_at IS NULL
    ORDER BY partner_id FOR NO KEY UPDATE
"""
LOCK_INCIDENT = Write(
    _LOCK_INCIDENTS.format("= %(partner_id)s"),
    order=Order.INCIDENT,
    many=Write(
        _LOCK_INCIDENTS.format("""IN (
        SELECT one.partner_id FROM json_to_recordset(%(rows)s::json) AS one (partner_id bigint))
        """),
        order=Order.INCIDENT,
    ),
)
_RESOLVE = """
    UPDATE msh_incident
    SET resolved_at = done.at, resolved_by = done.actor, resolution = done.resolution
    FROM ({}) done
    WHERE msh_incident.partner_id = done.partner_id AND direction = 'out'
      AND kind = 'conversation_stopped' AND resolved_at IS NULL
      AND NOT EXISTS (
        SELECT FROM msh_outboundconversation conversation
        JOIN msh_outboundlink link ON link.id = conversation.link_id
        WHERE link.partner_id = done.partner_id AND conversation.state = 'stopped')
"""
RESOLVE = Write(
    _RESOLVE.format(incidents.DONE),
    order=Order.INCIDENT,
    many=Write(_RESOLVE.format(incidents.DONE_MANY), order=Order.INCIDENT),
)
