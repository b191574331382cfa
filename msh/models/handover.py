"""Statements of the delivery. Only `flows.advance` calls those that write."""

from msh.protocol.effects import IncidentKind

CONSUMER_OF_HEAD = """
    SELECT id, kind, enabled FROM msh_consumer
    WHERE (partner_id = link.partner_id OR partner_id IS NULL)
      AND service_interface IN ('', head.service_interface) AND action IN ('', head.action)
    ORDER BY partner_id IS NULL, service_interface = '', action = '' LIMIT 1
"""


def _size_of(message: str) -> str:
    """Bytes of a message's payloads, which are not read for it."""
    return f"""
        SELECT coalesce(sum(octet_length(content)), 0) FROM msh_inboundpayload
        WHERE message_id = {message}
    """


# The head of a pair's undelivered messages. One with a delivery is not new: a failed head stays
# head (001-23), whatever waits behind it.
_HEADS = f"""
    SELECT head.id AS message_key, link.id AS link_id, link.partner_id, consumer.id AS consumer_id
    FROM msh_inboundlink link
    JOIN partners_partner partner ON partner.id = link.partner_id AND partner.delivers
    CROSS JOIN LATERAL (
        SELECT id, service_interface, action FROM msh_inboundmessage
        WHERE link_id = link.id AND state = 'accepted' ORDER BY id LIMIT 1) head
    LEFT JOIN LATERAL ({CONSUMER_OF_HEAD}) consumer ON true
"""
_IS_NEW = "NOT EXISTS (SELECT FROM msh_delivery WHERE message_id = head.id)"

FIND_NEW = f"""
    SELECT new.*, ({_size_of("new.message_key")}) AS size
    FROM ({_HEADS}
        WHERE link.id <> ALL(%s) AND consumer.enabled AND consumer.kind = ANY(%s)
          AND consumer.id <> ALL(%s) AND {_IS_NEW}
        ORDER BY head.id LIMIT %s) new
    ORDER BY new.message_key
"""
FIND_NEW_OF_LINK = f"{_HEADS} WHERE link.id = %s AND consumer.enabled AND {_IS_NEW}"
FIND_NEW_OF_CONSUMER = f"""{_HEADS}
    WHERE consumer.id = %s AND consumer.enabled AND {_IS_NEW} ORDER BY head.id LIMIT %s
"""
FIND_UNCLAIMED = f"""{_HEADS}
    WHERE consumer.id IS NULL AND NOT EXISTS (
        SELECT FROM msh_incident incident
        WHERE incident.partner_id = link.partner_id AND incident.direction = 'in'
          AND incident.kind = '{IncidentKind.NO_CONSUMER}' AND incident.resolved_at IS NULL)
"""
RESOLVE_CLAIMED = f"""
    UPDATE msh_incident incident
    SET resolved_at = statement_timestamp(), resolved_by = %s, resolution = %s
    FROM partners_partner switched
    WHERE switched.id = incident.partner_id AND switched.delivers
      AND incident.direction = 'in' AND incident.kind = '{IncidentKind.NO_CONSUMER}'
      AND incident.resolved_at IS NULL
      AND NOT EXISTS ({_HEADS} WHERE consumer.id IS NULL AND link.partner_id = switched.id)
"""
FIND_DUE = f"""
    SELECT delivery.id, delivery.state, delivery.consumer_id, message.link_id,
           ({_size_of("message.id")}) AS size
    FROM msh_delivery delivery
    JOIN msh_inboundmessage message ON message.id = delivery.message_id
    JOIN msh_consumer consumer ON consumer.id = delivery.consumer_id
    JOIN msh_inboundlink link ON link.id = message.link_id
    JOIN partners_partner partner ON partner.id = link.partner_id
    WHERE delivery.due <= statement_timestamp() AND delivery.id <> ALL(%s)
      AND (partner.delivers OR delivery.state <> 'failed')
      AND ((consumer.enabled AND consumer.kind <> 'pull') OR delivery.state <> 'failed')
      AND (delivery.state <> 'failed' OR consumer.id <> ALL(%s))
      AND (delivery.state IN ('completed', 'rejected') OR consumer.id <> ALL(%s)
           OR (delivery.state = 'failed' AND consumer.kind = 'http'))
    ORDER BY delivery.due LIMIT %s
"""
FIND_DUE_OF_CONSUMER = """
    SELECT delivery.id FROM msh_delivery delivery
    JOIN msh_inboundmessage message ON message.id = delivery.message_id
    JOIN msh_inboundlink link ON link.id = message.link_id
    JOIN partners_partner partner ON partner.id = link.partner_id AND partner.delivers
    JOIN msh_consumer consumer ON consumer.id = delivery.consumer_id AND consumer.enabled
    WHERE consumer.id = %s AND delivery.state = 'failed'
      AND delivery.due <= statement_timestamp()
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
