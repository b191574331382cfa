"""Statements of the delivery. Only `flows.advance` calls those that write."""

from msh.protocol.effects import IncidentKind

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
_HEAD_OF_LINK = """(
    SELECT link_id, id, service_interface, action FROM msh_inboundmessage
    WHERE link_id = {0} AND state = 'accepted' ORDER BY id LIMIT 1) head
"""
# The LIMIT has each head look up its own link: joined, all links might be read.
_CONSUMERS_OF = f"""
    SELECT head.id AS message_key, head.link_id, link.partner_id, consumer.id AS consumer_id
    FROM {{0}} CROSS JOIN LATERAL (
        SELECT partner.id AS partner_id
        FROM msh_inboundlink JOIN partners_partner partner ON partner.id = partner_id
        WHERE msh_inboundlink.id = head.link_id AND partner.delivers LIMIT 1) link
    LEFT JOIN LATERAL ({CONSUMER_OF_HEAD}) consumer ON true
"""
_HEADS = _CONSUMERS_OF.format("head")
# A head with a delivery is not new, and what waits behind it has to wait (001-23).
_IS_NEW = "NOT EXISTS (SELECT FROM msh_delivery WHERE message_id = head.id)"
_NO_CONSUMER = f"""
    direction = 'in' AND kind = '{IncidentKind.NO_CONSUMER}' AND resolved_at IS NULL
"""

FIND_NEW_TO_POST = f"""
    {LEAP_TO_HEADS}, fitting AS (
        SELECT waiting.*, message_key AS waits_since FROM ({_HEADS}
            WHERE head.link_id <> ALL(%(busy_links)s) AND consumer.enabled
              AND consumer.kind = 'http' AND consumer.id <> ALL(%(full)s) AND {_IS_NEW}) waiting),
    {_IN_PLACES}
"""
FIND_NEW_TO_CALL = f"""
    {LEAP_TO_HEADS} {_HEADS}
    WHERE head.link_id <> ALL(%(busy_links)s) AND consumer.enabled
      AND consumer.kind = 'in_process' AND consumer.id <> ALL(%(threadless)s) AND {_IS_NEW}
    ORDER BY head.id LIMIT %(limit)s
"""
FIND_NEW_OF_LINK = f"""
    {_CONSUMERS_OF.format(_HEAD_OF_LINK.format("%s"))} WHERE consumer.enabled AND {_IS_NEW}
"""
FIND_NEW_OF_CONSUMER = f"""
    {LEAP_TO_HEADS} {_HEADS}
    WHERE consumer.id = %s AND consumer.enabled AND {_IS_NEW} ORDER BY head.id LIMIT %s
"""
FIND_UNCLAIMED = f"""
    {LEAP_TO_HEADS} {_HEADS}
    WHERE consumer.id IS NULL AND NOT EXISTS (
        SELECT FROM msh_incident WHERE partner_id = link.partner_id AND {_NO_CONSUMER})
"""
# By open incident. OFFSET keeps the searches of each from being joined with those of all.
RESOLVE_CLAIMED = f"""
    WITH claimed AS (
        SELECT id FROM msh_incident incident
        WHERE {_NO_CONSUMER}
          AND EXISTS (
            SELECT FROM partners_partner WHERE id = incident.partner_id AND delivers OFFSET 0)
          AND NOT EXISTS (
            {
    _CONSUMERS_OF.format(
        _HEAD_OF_LINK.format(
            "(SELECT id FROM msh_inboundlink WHERE partner_id = incident.partner_id)"
        )
    )
}
            WHERE consumer.id IS NULL OFFSET 0)
        ORDER BY partner_id FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE msh_incident incident
    SET resolved_at = statement_timestamp(), resolved_by = %s, resolution = %s
    FROM claimed WHERE incident.id = claimed.id
"""
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
FIND_DUE_TO_CALL = f"""
    SELECT delivery.id, delivery.state, delivery.consumer_id, message.link_id, link.partner_id
    {_OF_DUE}
    WHERE delivery.due <= statement_timestamp() AND delivery.id <> ALL(%(busy)s)
      AND (delivery.state <> 'failed'
           OR (consumer.enabled AND consumer.kind = 'in_process' AND partner.delivers))
      AND (delivery.state IN ('completed', 'rejected') OR consumer.id <> ALL(%(threadless)s))
    ORDER BY delivery.due LIMIT %(limit)s
"""
FIND_DUE_TO_POST = f"""
    WITH fitting AS (
        SELECT delivery.id, delivery.state, delivery.consumer_id, message.link_id, link.partner_id,
               message.id AS message_key, delivery.due AS waits_since
        {_OF_DUE}
        WHERE delivery.due <= statement_timestamp() AND delivery.id <> ALL(%(busy)s)
          AND delivery.state = 'failed' AND consumer.enabled AND consumer.kind = 'http'
          AND partner.delivers AND consumer.id <> ALL(%(full)s)),
    {_IN_PLACES}
"""
FIND_DUE_OF_CONSUMER = f"""
    SELECT delivery.id {_OF_DUE}
    WHERE delivery.consumer_id = %s AND consumer.enabled AND partner.delivers
      AND delivery.state = 'failed' AND delivery.due <= statement_timestamp()
    ORDER BY delivery.message_id LIMIT %s
"""
_SUBJECT = """
    message.id AS message_key, message.message_id, message.state AS message_state,
    message.semantics, link.partner_id, clock_timestamp() AS now
"""
LOCK = f"""
    SELECT delivery.id, delivery.consumer_id, delivery.state, delivery.attempt, delivery.failures,
           delivery.due, delivery.started_at, delivery.external_id, delivery.detail, {_SUBJECT}
    FROM msh_delivery delivery
    JOIN msh_inboundmessage message ON message.id = delivery.message_id
    JOIN msh_inboundlink link ON link.id = message.link_id
    WHERE delivery.id = ANY(%s)
    ORDER BY delivery.id
    FOR NO KEY UPDATE OF delivery
"""
LOCK_FREE = f"{LOCK} SKIP LOCKED"
# What steps of several deliveries may write, locked in the order that others lock it in: messages
# as the feed does, incidents as a single step does.
LOCK_MESSAGES = """
    SELECT id FROM msh_inboundmessage WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE
"""
LOCK_INCIDENTS = """
    SELECT id FROM msh_incident
    WHERE partner_id = ANY(%s) AND direction = 'in' AND kind = ANY(%s) AND resolved_at IS NULL
    ORDER BY partner_id, kind FOR NO KEY UPDATE
"""

# A new one has no row to lock. The row of its message stays free: a copy that arrives meanwhile
# is counted there, and must not wait for the consumer.
TRY_LOCK_NEW = "SELECT pg_try_advisory_xact_lock(%s, %s::int) AS had"
LOCK_SPACE = 0x6D7368  # "msh"
LOAD_NEW = f"""
    SELECT {_SUBJECT} FROM msh_inboundmessage message
    JOIN msh_inboundlink link ON link.id = message.link_id
    WHERE message.id = %s AND message.state = 'accepted'
      AND NOT EXISTS (SELECT FROM msh_delivery WHERE message_id = message.id)
"""

INSERT = """
    INSERT INTO msh_delivery (consumer_id, message_id, state, attempt, failures, due, started_at,
                              ended_at, external_id, detail)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING id
"""
UPDATE = """
    UPDATE msh_delivery SET state = %s, attempt = %s, failures = %s, due = %s, started_at = %s,
                            ended_at = %s, external_id = %s, detail = %s
    WHERE id = %s
"""
LEAVE = "UPDATE msh_inboundmessage SET state = %s, delivered_at = %s WHERE id = %s"
SET_ASIDE = "UPDATE msh_inboundmessage SET state = 'parked' WHERE id = %s"
# First the lock, then RESOLVE_IF_LAST with a snapshot of its own: it must see the deliveries of who
# held the incident before.
LOCK_INCIDENT = """
    SELECT id FROM msh_incident
    WHERE partner_id = %s AND direction = 'in' AND kind = %s AND resolved_at IS NULL
    FOR NO KEY UPDATE
"""
RESOLVE_IF_LAST = """
    UPDATE msh_incident SET resolved_at = %s, resolved_by = %s, resolution = %s
    WHERE partner_id = %s AND direction = 'in' AND kind = %s AND resolved_at IS NULL
      AND NOT EXISTS (
        SELECT FROM msh_delivery delivery
        JOIN msh_inboundmessage message ON message.id = delivery.message_id
        JOIN msh_inboundlink link ON link.id = message.link_id
        WHERE link.partner_id = %s AND delivery.state = ANY(%s))
"""
