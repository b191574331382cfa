"""Deliveries to be made: the heads of the pairs, with their consumers, and what is due."""

from dataclasses import dataclass
from datetime import datetime

from msh.store.engine import Key, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHead:
    """The first undelivered message of a pair, which has no delivery yet."""

    message_key: int
    link_id: int
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
    link_id: int
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


# Each consumer has so many places for POSTs. Large messages have a window of their own, for they
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
LEAP_TO_HEADS = """
    WITH RECURSIVE head AS (
        (SELECT link_id, id, service_interface, action FROM msh_inboundmessage
         WHERE state = 'accepted' ORDER BY link_id, id LIMIT 1)
        UNION ALL
        SELECT next.* FROM head CROSS JOIN LATERAL (
            SELECT link_id, id, service_interface, action FROM msh_inboundmessage
            WHERE state = 'accepted' AND link_id > head.link_id
            ORDER BY link_id, id LIMIT 1) next)
"""
HEAD_OF_LINK = """(
    SELECT link_id, id, service_interface, action FROM msh_inboundmessage
    WHERE link_id = {0} AND state = 'accepted' ORDER BY id LIMIT 1) head
"""
# The LIMIT has each head look up its own link: joined, all links might be read.
CONSUMERS_OF = f"""
    SELECT head.id AS message_key, head.link_id, link.partner_id, consumer.id AS consumer_id
    FROM {{0}} CROSS JOIN LATERAL (
        SELECT partner.id AS partner_id
        FROM msh_inboundlink JOIN partners_partner partner ON partner.id = partner_id
        WHERE msh_inboundlink.id = head.link_id AND partner.delivers LIMIT 1) link
    LEFT JOIN LATERAL ({CONSUMER_OF_HEAD}) consumer ON true
"""
HEADS = CONSUMERS_OF.format("head")
# A head with a delivery is not new, and what waits behind it has to wait (001-23).
_IS_NEW = "NOT EXISTS (SELECT FROM msh_delivery WHERE message_id = head.id)"

FIND_NEW_TO_POST = Statement(
    f"""
    {LEAP_TO_HEADS}, fitting AS (
        SELECT waiting.*, message_key AS waits_since FROM ({HEADS}
            WHERE head.link_id <> ALL(%(busy_links)s) AND consumer.enabled
              AND consumer.kind = 'http' AND consumer.id <> ALL(%(full)s) AND {_IS_NEW}) waiting),
    {_IN_PLACES}
""",
    NewHeadToPost,
)
FIND_NEW_TO_CALL = Statement(
    f"""
    {LEAP_TO_HEADS} {HEADS}
    WHERE head.link_id <> ALL(%(busy_links)s) AND consumer.enabled
      AND consumer.kind = 'in_process' AND consumer.id <> ALL(%(threadless)s) AND {_IS_NEW}
    ORDER BY head.id LIMIT %(limit)s
""",
    NewHead,
)
FIND_NEW_OF_LINK = Statement(
    f"""
    {CONSUMERS_OF.format(HEAD_OF_LINK.format("%(link_id)s"))} WHERE consumer.enabled AND {_IS_NEW}
""",
    NewHead,
)
FIND_NEW_OF_CONSUMER = Statement(
    f"""
    {LEAP_TO_HEADS} {HEADS}
    WHERE consumer.id = %(consumer_id)s AND consumer.enabled AND {_IS_NEW}
    ORDER BY head.id LIMIT %(limit)s
""",
    NewHead,
)
# What is due first; each row then looks up its own, as above.
_OF_DUE = """
    FROM msh_delivery delivery
    CROSS JOIN LATERAL (
        SELECT id, kind, enabled FROM msh_consumer WHERE id = delivery.consumer_id LIMIT 1) consumer
    CROSS JOIN LATERAL (
        SELECT id, link_id FROM msh_inboundmessage WHERE id = delivery.message_id LIMIT 1) message
    CROSS JOIN LATERAL (
        SELECT partner_id FROM msh_inboundlink WHERE id = message.link_id LIMIT 1) link
    CROSS JOIN LATERAL (
        SELECT delivers FROM partners_partner WHERE id = link.partner_id LIMIT 1) partner
"""
# Those that need a thread and those that need a POST apart: either may have to wait.
FIND_DUE_TO_CALL = Statement(
    f"""
    SELECT delivery.id, delivery.state, delivery.consumer_id, message.link_id, link.partner_id
    {_OF_DUE}
    WHERE delivery.due <= statement_timestamp() AND delivery.id <> ALL(%(busy)s)
      AND (delivery.state <> 'failed'
           OR (consumer.enabled AND consumer.kind = 'in_process' AND partner.delivers))
      AND (delivery.state IN ('completed', 'rejected') OR consumer.id <> ALL(%(threadless)s))
    ORDER BY delivery.due LIMIT %(limit)s
""",
    DueDelivery,
)
FIND_DUE_TO_POST = Statement(
    f"""
    WITH fitting AS (
        SELECT delivery.id, delivery.state, delivery.consumer_id, message.link_id, link.partner_id,
               message.id AS message_key, delivery.due AS waits_since
        {_OF_DUE}
        WHERE delivery.due <= statement_timestamp() AND delivery.id <> ALL(%(busy)s)
          AND delivery.state = 'failed' AND consumer.enabled AND consumer.kind = 'http'
          AND partner.delivers AND consumer.id <> ALL(%(full)s)),
    {_IN_PLACES}
""",
    DueDeliveryToPost,
)
FIND_DUE_OF_CONSUMER = Statement(
    f"""
    SELECT delivery.id {_OF_DUE}
    WHERE delivery.consumer_id = %(consumer_id)s AND consumer.enabled AND partner.delivers
      AND delivery.state = 'failed' AND delivery.due <= statement_timestamp()
    ORDER BY delivery.message_id LIMIT %(limit)s
""",
    Key,
)
