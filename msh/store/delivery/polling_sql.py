"""Deliveries to be made: the heads of the pairs, with their consumers, and what is due."""

from dataclasses import dataclass
from datetime import datetime

from msh.store.engine import Key, Statement, Write


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHead:
    """The first undelivered message of an order, which has no delivery yet. `order_key`: the id of
    its link, or minus that of the conversation in whose order it is delivered."""

    message_key: int
    order_key: int
    partner_id: int
    consumer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHeadToPost(NewHead):
    """`size`: bytes of payload. `turn`: its place among those of its consumer."""

    size: int
    large: bool
    waits_since: int
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDelivery:
    id: int
    state: str
    consumer_id: int
    order_key: int
    partner_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDeliveryToPost(DueDelivery):
    """`size`: bytes of payload. `turn`: its place among those of its consumer."""

    message_key: int
    size: int
    large: bool
    waits_since: datetime
    turn: int


# Those of the partner and those of all, apart: together they would be looked for among all.
_CONSUMERS = """
    SELECT id, kind, enabled, partner_id, service_interface, action FROM msh_consumer
    WHERE partner_id {0} AND service_interface IN ('', head.service_interface)
      AND action IN ('', head.action)
"""
CONSUMER_OF_HEAD = f"""
    SELECT id, kind, enabled FROM (
        {_CONSUMERS.format("= link.partner_id")} UNION ALL {_CONSUMERS.format("IS NULL")}) fitting
    ORDER BY partner_id IS NULL, service_interface = '', action = '' LIMIT 1
"""


# Each consumer has so many slots for POSTs. Large messages have a window of their own, for they
# may wait until others have left. Of each consumer the first, then of each the second.
_IN_PLACES = """
    sized AS (
        SELECT fitting.*, part.size, part.size >= %(large)s AS large
        FROM fitting CROSS JOIN LATERAL (
            SELECT coalesce(sum(octet_length(content)), 0) AS size FROM msh_inboundpayload
            WHERE message_id = fitting.message_key) part),
    turns AS (
        SELECT *, row_number() OVER (
            PARTITION BY consumer_id, large ORDER BY waits_since, message_key) AS turn
        FROM sized)
    (SELECT * FROM turns WHERE turn <= %(of_consumer)s AND NOT large
     ORDER BY turn, waits_since LIMIT %(limit)s)
    UNION ALL
    (SELECT * FROM turns WHERE turn <= %(of_consumer)s AND large
     ORDER BY turn, waits_since LIMIT %(limit_of_large)s)
    ORDER BY turn, waits_since, message_key
"""


# The head of each pair's undelivered messages, read by leaps: one index probe for each pair that
# has some, none for a pair that has none. A head stays head, whatever became of its delivery.
# Apart from them the links that have messages in the order of a conversation.
LEAP_TO_HEADS = """
    WITH RECURSIVE head AS (
        (SELECT link_id, id, link_id AS order_key, service_interface, action
         FROM msh_inboundmessage
         WHERE state = 'accepted' AND ordered_in_id IS NULL ORDER BY link_id, id LIMIT 1)
        UNION ALL
        SELECT next.* FROM head CROSS JOIN LATERAL (
            SELECT link_id, id, link_id AS order_key, service_interface, action
            FROM msh_inboundmessage
            WHERE state = 'accepted' AND ordered_in_id IS NULL AND link_id > head.link_id
            ORDER BY link_id, id LIMIT 1) next),
    in_order AS (
        (SELECT link_id FROM msh_inboundmessage
         WHERE state = 'accepted' AND ordered_in_id IS NOT NULL ORDER BY link_id LIMIT 1)
        UNION ALL
        SELECT next.* FROM in_order CROSS JOIN LATERAL (
            SELECT link_id FROM msh_inboundmessage
            WHERE state = 'accepted' AND ordered_in_id IS NOT NULL AND link_id > in_order.link_id
            ORDER BY link_id LIMIT 1) next)
"""
# BETWEEN keeps the primary key out, as in msh/store/sending/queue_sql.py.
HEAD_OF_LINK = """(
    SELECT link_id, id, link_id AS order_key, service_interface, action FROM msh_inboundmessage
    WHERE link_id BETWEEN {0} AND {0} AND state = 'accepted' AND ordered_in_id IS NULL
    ORDER BY link_id, id LIMIT 1) head
"""
_IN_CONVERSATION = """
    SELECT link_id, id, -ordered_in_id AS order_key, service_interface, action, ordered_in_id
    FROM msh_inboundmessage
    WHERE state = 'accepted' AND ordered_in_id IS NOT NULL AND {0}
    ORDER BY ordered_in_id, COALESCE(turn, id) LIMIT 1
"""
_HEAD_OF_CONVERSATION = f"({_IN_CONVERSATION.format('{0}')}) head"
_NEXT_IN_LINK = "link_id = {0} AND {1} AND ordered_in_id > head.ordered_in_id"
# The heads of the conversations of one link, of those to which {1} applies.
_LEAP_TO_CONVERSATIONS = f"""
    WITH RECURSIVE head AS (
        ({_IN_CONVERSATION.format("link_id = {0} AND {1}")})
        UNION ALL
        SELECT next.* FROM head CROSS JOIN LATERAL (
            {_IN_CONVERSATION.format(_NEXT_IN_LINK)}
        ) next)
"""
AT_ONCE = 100
"""Conversations of one link that a poll finds. The next poll begins behind those."""
# All of them: what one is looked for among may be the last. LIMIT ends the search.
_FIRST_OF_LINK = f"""(
    {_LEAP_TO_CONVERSATIONS.format("{0}", "true")}
    SELECT link_id, id, order_key, service_interface, action FROM head)
"""
FIRST_OF_LINK = f"{_FIRST_OF_LINK} head"
# Of all links, for what is looked for among the heads that have not left.
FIRST_IN_ORDER = f"""(
    SELECT first.* FROM in_order
    CROSS JOIN LATERAL {_FIRST_OF_LINK.format("in_order.link_id")} first) head
"""
# The LIMIT has each head look up its own link: joined, all links might be read.
CONSUMERS_OF = f"""
    SELECT head.id AS message_key, head.order_key, link.partner_id, consumer.id AS consumer_id
    FROM {{0}} CROSS JOIN LATERAL (
        SELECT partner.id AS partner_id
        FROM msh_inboundlink JOIN partners_partner partner ON partner.id = partner_id
        WHERE msh_inboundlink.id = head.link_id AND partner.delivers LIMIT 1) link
    LEFT JOIN LATERAL ({CONSUMER_OF_HEAD}) consumer ON true
"""
HEADS = CONSUMERS_OF.format("head")
# A head with a delivery is not new, and what waits behind it has to wait (001-23).
# OFFSET 0: the index is probed for each head. Else the planner may read all deliveries for a join.
_IS_NEW = "NOT EXISTS (SELECT FROM msh_delivery WHERE message_id = head.id OFFSET 0)"


def _heads(condition: str, taker: str) -> str:
    """The first message of each pair, and of some conversations of each link, so that a
    conversation that waits does not keep others from being found. There may be many, so links are
    skipped from which no consumer with `taker` takes anything. Conversations are polled round
    robin, from the position `behind` on: otherwise the first ones would keep the others waiting."""
    later, earlier = (
        _LEAP_TO_CONVERSATIONS.format("in_order.link_id", f"ordered_in_id {way} turn.behind")
        for way in (">", "<=")
    )
    return f"""
    {HEADS} {condition}
    UNION ALL
    SELECT waiting.* FROM in_order
    CROSS JOIN LATERAL (
        SELECT COALESCE(max(place.behind), 0) AS behind
        FROM unnest(%(partners)s::bigint[], %(behind)s::bigint[]) AS place (partner_id, behind)
        WHERE place.partner_id = (
            SELECT partner_id FROM msh_inboundlink WHERE id = in_order.link_id)) turn
    CROSS JOIN LATERAL (
        ({later} {HEADS} {condition}) UNION ALL ({earlier} {HEADS} {condition})
        LIMIT {AT_ONCE}) waiting
    WHERE EXISTS (
        SELECT FROM msh_consumer WHERE enabled AND {taker} AND (partner_id IS NULL OR partner_id = (
            SELECT partner_id FROM msh_inboundlink WHERE id = in_order.link_id)))
"""


_TO_POST = f"""
            WHERE head.order_key <> ALL(%(busy)s) AND consumer.enabled
              AND consumer.kind = 'http' AND consumer.id <> ALL(%(full)s) AND {_IS_NEW}
"""
_TO_CALL = f"""
    WHERE head.order_key <> ALL(%(busy)s) AND consumer.enabled
      AND consumer.kind = 'in_process' AND consumer.id <> ALL(%(threadless)s) AND {_IS_NEW}
"""
_OF_CONSUMER = f"""
    WHERE consumer.id = %(consumer_id)s AND consumer.enabled AND {_IS_NEW}
"""
FIND_NEW_TO_POST = Statement(
    f"""
    {LEAP_TO_HEADS}, fitting AS (
        SELECT waiting.*, message_key AS waits_since
        FROM ({_heads(_TO_POST, "kind = 'http'")}) waiting),
    {_IN_PLACES}
""",
    NewHeadToPost,
)
FIND_NEW_TO_CALL = Statement(
    f"""
    {LEAP_TO_HEADS} {_heads(_TO_CALL, "kind = 'in_process'")}
    ORDER BY message_key LIMIT %(limit)s
""",
    NewHead,
)
_NEXT = f"{CONSUMERS_OF} WHERE consumer.enabled AND {_IS_NEW}"
FIND_NEW_OF_LINK = Statement(_NEXT.format(HEAD_OF_LINK.format("%(key)s")), NewHead)
FIND_NEW_OF_CONVERSATION = Statement(
    _NEXT.format(_HEAD_OF_CONVERSATION.format("ordered_in_id = %(key)s")), NewHead
)
FIND_NEW_OF_CONSUMER = Statement(
    f"""
    {LEAP_TO_HEADS} {_heads(_OF_CONSUMER, "id = %(consumer_id)s")}
    ORDER BY message_key LIMIT %(limit)s
""",
    NewHead,
)


# What is to be run again is looked for by leaps: of each consumer the pairs that have some, of each
# pair those that are due longest. Many may be due at once: after an outage of their consumer, or
# while their pair has to wait. Replays have an order of their own: one of each at a time.
def _again(taker: str, consumer: str = "true") -> str:
    return f"""
    WITH RECURSIVE place AS (
        (SELECT consumer_id, pair FROM msh_delivery WHERE state = 'failed' AND {consumer}
         ORDER BY consumer_id, pair LIMIT 1)
        UNION ALL
        SELECT next.* FROM place CROSS JOIN LATERAL (
            SELECT consumer_id, pair FROM msh_delivery
            WHERE state = 'failed' AND {consumer}
              AND (consumer_id, pair) > (place.consumer_id, place.pair)
            ORDER BY consumer_id, pair LIMIT 1) next),
    again AS (
        SELECT delivery.id, delivery.state, place.consumer_id, message.order_key, link.partner_id,
               delivery.message_id AS message_key, delivery.due AS waits_since
        FROM place
        CROSS JOIN LATERAL (
            SELECT FROM msh_consumer WHERE id = place.consumer_id AND enabled AND {taker} LIMIT 1
            ) consumer
        CROSS JOIN LATERAL (
            SELECT partner_id
            FROM msh_inboundlink JOIN partners_partner partner ON partner.id = partner_id
            WHERE msh_inboundlink.id = abs(place.pair) AND partner.delivers LIMIT 1) link
        CROSS JOIN LATERAL (
            SELECT id, state, message_id, due FROM msh_delivery one
            WHERE consumer_id = place.consumer_id AND pair = place.pair AND state = 'failed'
              AND due <= statement_timestamp() AND id <> ALL(%(busy)s)
              AND (pair > 0 OR NOT EXISTS (
                SELECT FROM msh_inboundmessage
                WHERE id = one.message_id AND -ordered_in_id = ANY(%(orders)s) OFFSET 0))
              AND (replay_order IS NULL OR NOT EXISTS (
                SELECT FROM msh_delivery earlier
                WHERE earlier.consumer_id = one.consumer_id
                  AND earlier.replay_order = one.replay_order
                  AND earlier.state IN ('processing', 'failed') AND earlier.id < one.id))
            ORDER BY due LIMIT %(of_pair)s) delivery
        CROSS JOIN LATERAL (
            SELECT COALESCE(-ordered_in_id, link_id) AS order_key
            FROM msh_inboundmessage WHERE id = delivery.message_id LIMIT 1) message
        WHERE place.pair < 0 OR place.pair <> ALL(%(orders)s))
    """


# A lease that is over, and a message that is to leave: no more than were under way.
_OVERDUE = """
    SELECT delivery.id, delivery.state, delivery.consumer_id, message.order_key, link.partner_id
    FROM msh_delivery delivery
    CROSS JOIN LATERAL (
        SELECT link_id, COALESCE(-ordered_in_id, link_id) AS order_key
        FROM msh_inboundmessage WHERE id = delivery.message_id LIMIT 1) message
    CROSS JOIN LATERAL (
        SELECT partner_id FROM msh_inboundlink WHERE id = message.link_id LIMIT 1) link
    WHERE delivery.state IN ('processing', 'completed', 'rejected')
      AND delivery.due <= statement_timestamp() AND delivery.id <> ALL(%(busy)s)
      AND message.order_key <> ALL(%(orders)s)
      AND (delivery.state <> 'processing' OR delivery.consumer_id <> ALL(%(threadless)s))
    ORDER BY delivery.due LIMIT %(limit)s
"""
# Threads and POSTs have separate limits, so their deliveries are polled separately. What is
# overdue has a window of its own. Of each consumer the first, then of each the second: none fills
# the window.
FIND_DUE_TO_CALL = Statement(
    f"""
    {_again("kind = 'in_process' AND id <> ALL(%(threadless)s)")}
    ({_OVERDUE})
    UNION ALL
    (SELECT id, state, consumer_id, order_key, partner_id FROM (
        SELECT *, row_number() OVER (PARTITION BY consumer_id ORDER BY waits_since) AS turn
        FROM again) turns ORDER BY turn, waits_since LIMIT %(limit)s)
""",
    DueDelivery,
)
FIND_AGAIN_TO_POST = Statement(
    f"""
    {_again("kind = 'http' AND id <> ALL(%(full)s)")}, fitting AS (SELECT * FROM again),
    {_IN_PLACES}
""",
    DueDeliveryToPost,
)
FIND_AGAIN_OF_CONSUMER = Statement(
    f"""
    {_again("true", "consumer_id = %(consumer_id)s")}
    SELECT id FROM again ORDER BY message_key LIMIT %(limit)s
""",
    Key,
)
# Once a minute, with the round trip of the search. It waits for nobody who changes the consumer.
NOTE_FETCH = Write("""
    UPDATE msh_consumer SET fetched_at = statement_timestamp()
    WHERE id = (
        SELECT id FROM msh_consumer
        WHERE id = %(consumer_id)s
          AND (fetched_at IS NULL OR fetched_at <= statement_timestamp() - interval '1 minute')
        FOR NO KEY UPDATE SKIP LOCKED)
""")
