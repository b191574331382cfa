"""Messages we accept."""

from .partner import PARTNER_AS_READ

LOCK_INBOUND_LINK = "SELECT id FROM msh_inboundlink WHERE partner_id = %s FOR NO KEY UPDATE"

# D63: a party configured without context is compared by its text alone.
LOAD_INBOUND = f"""
    SELECT link.id, link.last_number, link.epoch, link.reset_allowed,
           link.xmin::text AS version, {PARTNER_AS_READ},
           known.id AS known_id, known.content_digest AS known_digest,
           known.state AS known_state, route.id AS route_id,
           agreement.id AS agreement_id, agreement.on_unexpected_first,
           agreement.timeout + agreement.retries * agreement.retry_interval AS retry_horizon,
           clock_timestamp() AS now
    FROM msh_inboundlink link
    LEFT JOIN msh_inboundmessage known ON known.link_id = link.id AND known.message_id = %s
    LEFT JOIN partners_agreement agreement
           ON agreement.partner_id = link.partner_id AND agreement.tpa_id = %s
          AND agreement.their_party = %s AND agreement.their_party_context IN ('', %s)
          AND agreement.our_party = %s AND agreement.our_party_context IN ('', %s)
    LEFT JOIN LATERAL (
        SELECT id FROM partners_route
        WHERE to_party = agreement.our_party
          AND to_party_context IN ('', agreement.our_party_context)
        ORDER BY to_party_context DESC LIMIT 1) route ON true
    WHERE link.partner_id = %s
"""

ACCEPTED = """
    message AS (
        INSERT INTO msh_inboundmessage
            (link_id, agreement_id, message_id, semantics, state, epoch, sequence_number,
             conversation_id, service_interface, action, ref_to_message_id, sent_at, received_at,
             content_digest, header)
        VALUES (%s, %s, %s, %s, 'accepted', %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
        RETURNING id),
    parts AS (
        INSERT INTO msh_inboundpayload
            (message_id, position, content_type, content_id, label, description, content)
        SELECT message.id, part.*
        FROM message,
             unnest(%s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bytea[]) part)
"""
ACCEPT_MESSAGE = f"WITH {ACCEPTED} SELECT id FROM message"

WRITE_LAST_NUMBER = """
    UPDATE msh_inboundlink
    SET last_number = %s, epoch = %s, highest_number = GREATEST(highest_number, %s),
        reset_allowed = %s, last_message_id = %s
    WHERE id = %s
"""

COUNT_DUPLICATE = "UPDATE msh_inboundmessage SET duplicates = duplicates + 1 WHERE id = %s"
