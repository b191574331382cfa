"""The gates of partners, which are columns of their links: found and written."""

from msh.store.engine import Order, Statement, Write

from .rows import GateRow, HeldGate

# Its maintenance window runs: the partner is not probed.
IN_MAINTENANCE = """EXISTS (
        SELECT FROM msh_maintenancewindow
        WHERE partner_id = link.partner_id AND state = 'running')"""

LOCK_FREE_GATES = Statement(
    """
    SELECT id, partner_id FROM msh_outboundlink WHERE partner_id = ANY(%(partner_ids)s)
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
    """,
    HeldGate,
)

FIND_GATES = Statement(
    "SELECT id, partner_id FROM msh_outboundlink WHERE partner_id = ANY(%(partner_ids)s)", HeldGate
)

# Links with ready flights, with new ones that are sent in order, and with conversations of which a
# message may start are read by leaps from one to the next, so that a long queue of one of them
# costs nothing; those whose gate is shut are left out, unless their probe is due. `full` are
# partners whose slots are all taken.
LOCK_BUSY_GATES = Statement(
    f"""
    WITH RECURSIVE ready (link_id) AS (
        (SELECT link_id FROM msh_flight WHERE state = 'ready' AND NOT waits_turn
         ORDER BY link_id LIMIT 1)
        UNION ALL
        SELECT next.link_id FROM ready CROSS JOIN LATERAL (
            SELECT link_id FROM msh_flight
            WHERE state = 'ready' AND NOT waits_turn AND link_id > ready.link_id
            ORDER BY link_id LIMIT 1) next),
    unsorted (link_id) AS (
        (SELECT link_id FROM msh_flight WHERE waits_turn AND ordered_in_id IS NULL
         ORDER BY link_id LIMIT 1)
        UNION ALL
        SELECT next.link_id FROM unsorted CROSS JOIN LATERAL (
            SELECT link_id FROM msh_flight
            WHERE waits_turn AND ordered_in_id IS NULL AND link_id > unsorted.link_id
            ORDER BY link_id LIMIT 1) next),
    starting (link_id) AS (
        (SELECT link_id FROM msh_outboundconversation
         WHERE state IN ('beginning', 'running') AND head IS NOT NULL ORDER BY link_id LIMIT 1)
        UNION ALL
        SELECT next.link_id FROM starting CROSS JOIN LATERAL (
            SELECT link_id FROM msh_outboundconversation
            WHERE state IN ('beginning', 'running') AND head IS NOT NULL
              AND link_id > starting.link_id
            ORDER BY link_id LIMIT 1) next),
    open AS (
        SELECT link.id
        FROM (SELECT link_id FROM ready UNION SELECT link_id FROM unsorted
              UNION SELECT link_id FROM starting) busy
        JOIN msh_outboundlink link ON link.id = busy.link_id
        WHERE (link.state <> 'suspended'
               OR (link.probe_due <= statement_timestamp() AND NOT {IN_MAINTENANCE}))
          AND link.partner_id <> ALL(%(full)s)),
    timed AS (
        (SELECT link_id FROM msh_flight
         WHERE state = 'waiting' AND due <= statement_timestamp()
         ORDER BY due LIMIT %(limit)s)
        UNION ALL
        (SELECT link_id FROM msh_flight
         WHERE ends_at <= statement_timestamp() ORDER BY ends_at LIMIT %(limit)s))
    SELECT link.id, link.partner_id FROM msh_outboundlink link
    WHERE link.id IN (SELECT id FROM open UNION SELECT link_id FROM timed)
    ORDER BY link.id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    """,
    HeldGate,
)

LOCK_GATES_WITH_NEW = Statement(
    """
    SELECT id, partner_id FROM msh_outboundlink link
    WHERE EXISTS (SELECT FROM msh_flight
                  WHERE link_id = link.id AND waits_turn AND ordered_in_id IS NULL)
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
    """,
    HeldGate,
)

# A statement of its own, after the lock: it must see what the lock's holder committed.
LOAD_GATES = Statement(
    f"""
    SELECT link.id AS link_id, link.partner_id, link.state, link.failures, link.failing_since,
           link.probe_due, link.probed_at, link.refusals, link.refused_for, link.refused_message,
           link.suspended_for, link.suspended_since, link.suspended_detail,
           link.suspended_reason,
           partner.probe_interval, partner.never_probe, agreed.retry_interval,
           link.state = 'suspended' AND {IN_MAINTENANCE} AS in_maintenance,
           flying.under_way, flying.expiring, flying.first_expiry, flying.last_expiry,
           agreed."window",
           EXISTS (SELECT FROM msh_flight
                   WHERE link_id = link.id AND waits_turn AND ordered_in_id IS NULL)
           OR EXISTS (SELECT FROM msh_outboundconversation
                      WHERE link_id = link.id AND state IN ('beginning', 'running')
                        AND head IS NOT NULL) AS in_order,
           clock_timestamp() AS now
    FROM msh_outboundlink link JOIN partners_partner partner ON partner.id = link.partner_id
    CROSS JOIN LATERAL (
        SELECT count(*) AS under_way, count(expires_at) AS expiring,
               min(expires_at) AS first_expiry, max(expires_at) AS last_expiry
        FROM msh_flight WHERE link_id = link.id AND under_way) flying
    CROSS JOIN LATERAL (
        SELECT COALESCE(min("window"), 0) AS "window",
               COALESCE(min(retry_interval), 0) AS retry_interval
        FROM partners_agreement WHERE partner_id = link.partner_id) agreed
    WHERE link.id = ANY(%(link_ids)s) ORDER BY link.id
    """,
    GateRow,
)

WRITE_GATE = Write(
    """
    UPDATE msh_outboundlink
    SET state = CASE WHEN %(suspended)s THEN 'suspended' ELSE 'idle' END,
        failures = %(failures)s, failing_since = %(failing_since)s, probe_due = %(probe_due)s,
        probed_at = %(probed_at)s, refusals = %(refusals)s, refused_for = %(refused_for)s,
        refused_message = %(refused_message)s, suspended_for = %(suspended_for)s,
        suspended_since = %(suspended_since)s, suspended_detail = %(suspended_detail)s,
        suspended_reason = %(suspended_reason)s
    WHERE id = %(link_id)s AND state IN ('idle', 'suspended')
    """,
    order=Order.LINK,
)

RESOLVE_OF_GATE = Write(
    """
    UPDATE msh_incident
    SET resolved_at = %(at)s, resolved_by = %(actor)s, resolution = %(resolution)s
    WHERE partner_id = %(partner_id)s AND direction = 'out' AND resolved_at IS NULL
      AND kind IN ('partner_unreachable', 'partner_refuses')
    """,
    order=Order.INCIDENT,
)
