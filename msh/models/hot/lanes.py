"""The Sender's lanes: one row a pair, and the head of its queue."""

from .partner import PARTNER_AS_READ

LOCK_LANES = """
    SELECT id FROM msh_outboundlink WHERE partner_id = ANY(%s) ORDER BY id FOR NO KEY UPDATE
"""

_DUE_LANES = """
    SELECT partner_id FROM msh_outboundlink link
    WHERE state IN ('waiting', 'transient') AND due <= statement_timestamp()
      AND {0} (unsent AND EXISTS (
          SELECT FROM msh_outboundmessage flying
          WHERE flying.id = link.in_flight_id AND flying.size >= %s OFFSET 0))
      AND NOT (unsent AND partner_id = ANY(%s))
    ORDER BY due LIMIT %s
    FOR NO KEY UPDATE SKIP LOCKED
"""

# But for copies that wait for a place of one of these partners, and large ones: many of them may
# wait until others have left, and must not hide those that need not.
LOCK_DUE_LANES = _DUE_LANES.format("NOT")

LOCK_DUE_LANES_WITH_LARGE_COPIES = _DUE_LANES.format("")

# What is due so far away may be because the clock was set back, or because that was agreed on.
FIND_FAR_LANES = """
    SELECT link.partner_id, link.state, link.next_number, link.epoch, link.due, link.unsent,
           link.attempt, link.retries_spent, link.transients, link.transient_since, link.late_ack,
           link.suspended_for, link.in_flight_id, flying.message_id, flying.sequence_number,
           flying.terms, statement_timestamp() AS now
    FROM msh_outboundlink link LEFT JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
    WHERE link.state IN ('waiting', 'transient')
      AND link.due > statement_timestamp() + interval '70 minutes'
"""

BRING_LANES_BACK = """
    UPDATE msh_outboundlink SET due = statement_timestamp() WHERE id IN (
        SELECT id FROM msh_outboundlink
        WHERE partner_id = ANY(%s) AND state IN ('waiting', 'transient')
          AND due > statement_timestamp() + interval '70 minutes'
        FOR NO KEY UPDATE SKIP LOCKED)
"""

# Read by leaps: the next idle lane, then the next lane from there on that has a queue. So neither
# lanes without a queue nor queues of lanes that are not idle cost anything where there are none of
# the other kind between them. `idle_id` is the lane that is idle, `full_id` the one that has a
# queue: it is found if both are the same.
LOCK_IDLE_LANES_WITH_QUEUE = """
    WITH RECURSIVE rewound (idle_id, full_id) AS (
        SELECT 0::bigint, -1::bigint
        UNION ALL
        SELECT idle.id, head.link_id FROM rewound
        CROSS JOIN LATERAL (
            SELECT id FROM msh_outboundlink
            WHERE state = 'idle' AND id > GREATEST(rewound.idle_id, rewound.full_id - 1)
            ORDER BY id LIMIT 1) idle
        CROSS JOIN LATERAL (
            SELECT link_id FROM msh_outboundmessage
            WHERE state = 'rewound' AND link_id >= idle.id
            ORDER BY link_id, epoch, sequence_number LIMIT 1) head),
    queued (idle_id, full_id) AS (
        SELECT 0::bigint, -1::bigint
        UNION ALL
        SELECT idle.id, head.link_id FROM queued
        CROSS JOIN LATERAL (
            SELECT id FROM msh_outboundlink
            WHERE state = 'idle' AND id > GREATEST(queued.idle_id, queued.full_id - 1)
            ORDER BY id LIMIT 1) idle
        CROSS JOIN LATERAL (
            SELECT link_id FROM msh_outboundmessage
            WHERE state = 'queued' AND semantics = 'OnceAndOnlyOnce' AND link_id >= idle.id
            ORDER BY link_id, id LIMIT 1) head),
    found AS (
        SELECT idle_id AS id FROM rewound WHERE idle_id = full_id
        UNION ALL
        SELECT idle_id FROM queued WHERE idle_id = full_id)
    SELECT link.partner_id FROM found CROSS JOIN LATERAL (
        SELECT partner_id FROM msh_outboundlink
        WHERE id = found.id AND state = 'idle' FOR NO KEY UPDATE SKIP LOCKED) link
    LIMIT %s
"""

_LANE_COLUMNS = """
           link.id, link.partner_id, link.state, link.next_number, link.epoch, link.due,
           link.unsent, link.attempt, link.retries_spent, link.transients, link.transient_since,
           link.late_ack, link.suspended_since, link.suspended_for, link.suspended_detail,
           link.in_flight_id, flying.message_id, flying.sequence_number, flying.terms,
           flying.relays_id, COALESCE(flying.size, head.size) AS size,
           head.id AS head_id, head.message_id AS head_message_id,
           head.sequence_number AS head_sequence_number, head.epoch AS head_epoch,
           head.earlier_attempts AS head_earlier_attempts,
           agreement.timeout, agreement.retries, agreement.retry_interval,
           agreement.transient_count_limit, agreement.transient_time_limit,
           agreement.transient_wait_limit, agreement.early_warning,
           clock_timestamp() AS now
"""
_LANE_TABLES = """
    msh_outboundlink link
    LEFT JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
    LEFT JOIN LATERAL (
        (SELECT id, message_id, agreement_id, sequence_number, epoch, earlier_attempts, size,
                0 AS turn
         FROM msh_outboundmessage WHERE link_id = link.id AND state = 'rewound'
         ORDER BY epoch, sequence_number LIMIT 1)
        UNION ALL
        (SELECT id, message_id, agreement_id, sequence_number, epoch, earlier_attempts, size, 1
         FROM msh_outboundmessage
         WHERE link_id = link.id AND state = 'queued' AND semantics = 'OnceAndOnlyOnce'
         ORDER BY id LIMIT 1)
        ORDER BY turn LIMIT 1) head ON true
    LEFT JOIN partners_agreement agreement ON agreement.id = head.agreement_id
"""

# A statement of its own, after the lock: it must see what the lock's holder committed. Rewound
# messages go before the queue, in the order of their numbers.
LOAD_LANES = f"""
    SELECT {_LANE_COLUMNS} FROM {_LANE_TABLES}
    WHERE link.partner_id = ANY(%s) ORDER BY link.id
"""

READ_LANE = f"""
    SELECT {_LANE_COLUMNS}, link.xmin::text AS version, {PARTNER_AS_READ},
           sent.state AS sent_state
    FROM {_LANE_TABLES}
    LEFT JOIN msh_outboundmessage sent ON sent.link_id = link.id AND sent.message_id = %s
    WHERE link.partner_id = %s
"""


WRITE_LANE = """
    UPDATE msh_outboundlink
    SET state = %s, next_number = %s, epoch = %s, in_flight_id = %s, due = %s, unsent = %s,
        attempt = %s, retries_spent = %s, transients = %s, transient_since = %s, late_ack = %s,
        suspended_since = %s, suspended_for = %s, suspended_detail = %s
    WHERE id = %s
"""
