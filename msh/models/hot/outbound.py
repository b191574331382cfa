"""Messages we send, their attempts, and what the From-Party is told."""

from .partner import ROUTE_COLUMNS

LOAD_COPIES = f"""
    SELECT message.id, message.message_id, message.semantics, message.conversation_id,
           message.service_interface, message.action, message.ref_to_message_id,
           message.submitted_at, message.boundary, message.head, message.body_sha256,
           agreement.tpa_id, agreement.our_party, agreement.our_party_context,
           agreement.their_party, agreement.their_party_context,
           part.wires, part.content_ids, part.labels, part.descriptions,
           relayed.header AS relayed_header, {ROUTE_COLUMNS}
    FROM msh_outboundmessage message
    JOIN partners_agreement agreement ON agreement.id = message.agreement_id
    JOIN partners_partner partner ON partner.id = agreement.partner_id
    LEFT JOIN partners_ownidentity own ON true
    LEFT JOIN msh_inboundmessage relayed
           ON relayed.id = message.relays_id AND message.head IS NULL
    LEFT JOIN LATERAL (
        SELECT array_agg(wire ORDER BY position) AS wires,
               array_agg(content_id ORDER BY position) AS content_ids,
               array_agg(label ORDER BY position) AS labels,
               array_agg(description ORDER BY position) AS descriptions
        FROM msh_outboundpayload WHERE message_id = message.id) part ON true
    WHERE message.id = ANY(%s)
    ORDER BY message.id
"""

FIND_SENT_MESSAGE = """
    SELECT message.id, message.message_id, message.state, message.outcome, message.relays_id
    FROM msh_outboundmessage message JOIN msh_outboundlink link ON link.id = message.link_id
    WHERE link.partner_id = %s AND message.message_id = %s
"""

PUT_IN_FLIGHT = """
    UPDATE msh_outboundmessage
    SET state = 'in_flight', sequence_number = %s, epoch = %s, terms = %s WHERE id = %s
"""

COMPLETE_MESSAGE = """
    UPDATE msh_outboundmessage SET state = %s, completed_at = %s, due = NULL WHERE id = %s
"""

CANCEL_MESSAGE = """
    UPDATE msh_outboundmessage
    SET state = 'cancelled', completed_at = %s, outcome = %s,
        sequence_number = CASE WHEN %s THEN NULL ELSE sequence_number END
    WHERE id = %s
"""

# It was never accepted, so another head with another number makes no second message of it.
REQUEUE_MESSAGE = """
    UPDATE msh_outboundmessage
    SET state = 'queued', sequence_number = NULL, epoch = NULL, terms = NULL, head = NULL,
        body_sha256 = NULL, first_sent_at = NULL,
        earlier_attempts = COALESCE(
            (SELECT max(number) FROM msh_attempt WHERE message_id = msh_outboundmessage.id), 0)
    WHERE id = %s
"""

REWIND_MESSAGES = """
    WITH again AS (
        UPDATE msh_outboundmessage message
        SET state = 'rewound', completed_at = NULL, outcome = '',
            earlier_attempts = COALESCE(
                (SELECT max(number) FROM msh_attempt WHERE message_id = message.id), 0)
        FROM msh_outboundmessage before
        WHERE before.id = message.id AND message.link_id = %s
          AND (message.epoch, message.sequence_number) > (%s, %s)
          AND (message.state IN ('acknowledged', 'in_flight')
               OR (message.state = 'cancelled' AND message.outcome = 'received'))
        RETURNING message.message_id, before.state)
    INSERT INTO msh_history
        (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state, detail)
    SELECT %s, %s, %s, 'out', 'message', message_id, 'SequenceRewound', state, 'rewound', %s
    FROM again
"""

RECORD_LATE_VERDICT = "UPDATE msh_outboundmessage SET outcome = 'received' WHERE id = %s"

COUNT_DUPLICATE_ACK = """
    UPDATE msh_outboundmessage SET duplicate_acks = duplicate_acks + 1 WHERE id = %s
"""

COMPOSE_MESSAGE = """
    UPDATE msh_outboundmessage SET head = %s, body_sha256 = %s, first_sent_at = %s WHERE id = %s
"""

LEASE_BEST_EFFORT = """
    UPDATE msh_outboundmessage SET state = 'in_flight', due = %s WHERE id = %s
"""

CLAIM_ATTEMPT = """
    INSERT INTO msh_attempt (message_id, number, claimed_at) VALUES (%s, %s, %s)
"""

END_ATTEMPT = """
    UPDATE msh_attempt SET ended_at = %s, outcome = %s, status = %s, detail = %s, body_sent = %s
    WHERE message_id = %s AND number = %s
"""

# The links that have queued ones are read by leaps from one to the next. Of these the ones whose
# first message is the oldest; those with a large one in a window of their own, for they may wait
# until others have left. Of each link the first, then of each the second, and so on.
# BETWEEN, for with `=` an index of ids alone would do for the order, and is read from its start.
# A link that is probed is suspended to all but the probe (D15, D41).
LOCK_BEST_EFFORT = """
    WITH RECURSIVE head (link_id, id, size) AS (
        (SELECT link_id, id, size FROM msh_outboundmessage
         WHERE semantics = 'BestEffort' AND state = 'queued' ORDER BY link_id, id LIMIT 1)
        UNION ALL
        SELECT next.link_id, next.id, next.size FROM head CROSS JOIN LATERAL (
            SELECT link_id, id, size FROM msh_outboundmessage
            WHERE semantics = 'BestEffort' AND state = 'queued' AND link_id > head.link_id
            ORDER BY link_id, id LIMIT 1) next),
    open AS (
        SELECT head.link_id, head.id, link.partner_id, head.size >= %s AS large
        FROM head CROSS JOIN LATERAL (
            SELECT partner_id, state, in_flight_id, retries_spent
            FROM msh_outboundlink WHERE id = head.link_id OFFSET 0) link
        WHERE link.state IN ('idle', 'waiting') AND link.partner_id <> ALL(%s)
          AND (link.retries_spent = 0 OR NOT EXISTS (
              SELECT FROM msh_outboundmessage flying
              WHERE flying.id = link.in_flight_id
                AND to_jsonb(link.retries_spent) > flying.terms -> 'retries'
              OFFSET 0))),
    chosen AS (
        (SELECT link_id, partner_id FROM open WHERE NOT large ORDER BY id LIMIT %s)
        UNION ALL
        (SELECT link_id, partner_id FROM open WHERE large ORDER BY id LIMIT %s)),
    candidate AS (
        SELECT first.id, partner_id FROM chosen CROSS JOIN LATERAL unnest(ARRAY(
            SELECT id FROM msh_outboundmessage
            WHERE link_id BETWEEN chosen.link_id AND chosen.link_id
              AND semantics = 'BestEffort' AND state = 'queued'
            ORDER BY link_id, id LIMIT %s)) WITH ORDINALITY first (id, place)
        ORDER BY first.place, first.id)
    SELECT message.id, message.message_id, message.size, candidate.partner_id
    FROM candidate CROSS JOIN LATERAL (
        SELECT id, message_id, size FROM msh_outboundmessage
        WHERE id = candidate.id AND state = 'queued' FOR NO KEY UPDATE SKIP LOCKED) message
    LIMIT %s
"""

LOCK_QUEUED_BEST_EFFORT = """
    SELECT message.id, message.size, link.partner_id
    FROM msh_outboundmessage message JOIN msh_outboundlink link ON link.id = message.link_id
    WHERE message.id = %s AND message.state = 'queued'
    FOR NO KEY UPDATE OF message SKIP LOCKED
"""

LOCK_OPEN_BEST_EFFORT = """
    SELECT id FROM msh_outboundmessage
    WHERE id = %s AND semantics = 'BestEffort' AND state IN ('queued', 'in_flight')
    FOR NO KEY UPDATE
"""

LOCK_LOST_BEST_EFFORT = """
    SELECT message.id, message.message_id, link.partner_id
    FROM msh_outboundmessage message JOIN msh_outboundlink link ON link.id = message.link_id
    WHERE message.semantics = 'BestEffort' AND message.state = 'in_flight'
      AND message.due <= statement_timestamp()
    LIMIT %s
    FOR NO KEY UPDATE OF message SKIP LOCKED
"""

LOCK_BEST_EFFORT_IN_FLIGHT = """
    SELECT message.id FROM msh_outboundmessage message
    WHERE message.id = ANY(%s) AND message.state = 'in_flight' AND semantics = 'BestEffort'
    ORDER BY id FOR NO KEY UPDATE
"""

# No row without a link in use, none for a MessageId that is known, none of an application where
# an operator has closed the partner to them: what is sent on for others is no application's.
SUBMIT_MESSAGE = """
    WITH message AS (
        INSERT INTO msh_outboundmessage
            (link_id, agreement_id, message_id, semantics, state, conversation_id,
             service_interface, action, ref_to_message_id, submitted_at, content_digest, size,
             boundary, relays_id)
        SELECT link.id, %s, %s, %s, 'queued', %s, %s, %s, %s, statement_timestamp(), %s, %s, %s,
               given.relays
        FROM (SELECT %s::bigint AS relays) given, msh_outboundlink link
        JOIN partners_partner partner ON partner.id = link.partner_id
        WHERE link.partner_id = %s AND partner.in_use
          AND (partner.accepts OR given.relays IS NOT NULL)
        ON CONFLICT (link_id, message_id) DO NOTHING
        RETURNING id, link_id, submitted_at),
    parts AS (
        INSERT INTO msh_outboundpayload
            (message_id, position, content_type, content_id, label, description, wire)
        SELECT message.id, part.*
        FROM message,
             unnest(%s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bytea[]) part),
    story AS (
        INSERT INTO msh_history
            (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state,
             detail)
        SELECT submitted_at, %s, %s, %s, %s, %s, %s, %s, %s, %s FROM message)
    SELECT id, link_id, submitted_at FROM message
"""
