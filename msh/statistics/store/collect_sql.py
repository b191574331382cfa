"""What is counted, and how far: each batch is added to its minutes, hours, days and weeks."""

from dataclasses import dataclass
from datetime import datetime

from msh.store.engine import Statement, Write


@dataclass(frozen=True, slots=True)
class Progress:
    """The row of the same name. Transactions before `oldest` have ended, but for ours; `own` is
    ours, and later than all that were there before."""

    history_id: int
    attempt_id: int
    up_to: datetime | None
    next_history_id: int
    next_attempt_id: int
    next_at: datetime | None
    fence: int | None
    now: datetime
    oldest: int
    own: int


@dataclass(frozen=True, slots=True)
class Last:
    """The last row of a batch; None if there is none."""

    history_id: int | None
    attempt_id: int | None


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """The link to a partner was suspended, or was let go on."""

    partner_id: int
    at: datetime
    suspends: bool


@dataclass(frozen=True, slots=True)
class OpenSuspension:
    id: int
    partner_id: int
    began_at: datetime


BEGIN = Write("INSERT INTO msh_statisticsprogress (id, history_id, attempt_id, next_history_id,"
              " next_attempt_id) VALUES (1, 0, 0, 0, 0) ON CONFLICT (id) DO NOTHING")  # fmt: skip

# Not pg_snapshot_xmin: that may be the transaction that asks.
LOCK = Statement(
    """
    SELECT history_id, attempt_id, up_to, next_history_id, next_attempt_id, next_at, fence,
           clock_timestamp() AS now,
           COALESCE((SELECT min(id::text::bigint)
                     FROM pg_snapshot_xip(pg_current_snapshot()) AS id),
                    pg_snapshot_xmax(pg_current_snapshot())::text::bigint) AS oldest,
           pg_current_xact_id()::text::bigint AS own
    FROM msh_statisticsprogress WHERE id = 1 FOR UPDATE SKIP LOCKED
    """,
    Progress,
)

SET_BOUNDARY = Write("""
    UPDATE msh_statisticsprogress
    SET next_history_id = GREATEST(history_id, (SELECT max(id) FROM msh_history)),
        next_attempt_id = GREATEST(attempt_id, (SELECT max(id) FROM msh_attempt)),
        next_at = %(now)s, fence = NULL
    WHERE id = 1
""")
SET_FENCE = Write("UPDATE msh_statisticsprogress SET fence = %(fence)s WHERE id = 1")
ADVANCE = Write("""
    UPDATE msh_statisticsprogress SET history_id = %(history_id)s, attempt_id = %(attempt_id)s
    WHERE id = 1
""")
REACH = Write("""
    UPDATE msh_statisticsprogress
    SET history_id = next_history_id, attempt_id = next_attempt_id, up_to = next_at,
        next_at = NULL, fence = NULL
    WHERE id = 1
""")

# By the row and not by the number: numbers have gaps.
FIND_LAST = Statement(
    """
    SELECT (SELECT max(id) FROM (
                SELECT id FROM msh_history WHERE id > %(history_id)s AND id <= %(next_history_id)s
                ORDER BY id LIMIT %(limit)s) rows) AS history_id,
           (SELECT max(id) FROM (
                SELECT id FROM msh_attempt WHERE id > %(attempt_id)s AND id <= %(next_attempt_id)s
                ORDER BY id LIMIT %(limit)s) rows) AS attempt_id
    """,
    Last,
)

# Each counts in the rows of its minute, hour, day and week, of its partner and of the whole MSH.
_SLOTS = """
    (VALUES ('minute', true), ('hour', true), ('day', true), ('week', true),
            ('minute', false), ('hour', false), ('day', false), ('week', false))
        AS slots (unit, whole)
"""

# One probe of a unique index for each row: LIMIT 1 leaves the planner no other way.
COUNT_HISTORY = Write(f"""
    WITH entry AS MATERIALIZED (
        SELECT at, partner_id, direction, message_id, times,
               CASE
                   WHEN direction = 'out' THEN CASE
                       WHEN to_state = 'acknowledged' THEN 'acknowledged'
                       WHEN event = 'MessageSubmitted' THEN 'submitted'
                       WHEN to_state = 'sent' THEN 'sent'
                       WHEN to_state IN ('failed', 'cancelled') AND from_state <> to_state
                       THEN 'failed' END
                   WHEN event = 'DuplicateArrived' THEN 'duplicate'
                   WHEN event = 'MessageArrived' AND to_state IN ('accepted', 'held')
                   THEN 'received'
                   WHEN from_state = to_state THEN NULL
                   WHEN to_state IN ('rejected', 'in_doubt', 'delivered') THEN to_state
                   WHEN to_state IN ('failed', 'blocked', 'parked') AND actor = 'msh'
                   THEN 'delivery failed' END AS what
        FROM msh_history
        WHERE id > %(history_id)s AND id <= %(last)s AND subject = 'message'),
    counted AS MATERIALIZED (
        SELECT entry.at, entry.partner_id, entry.what, entry.times,
               COALESCE(ours.agreement_id, theirs.agreement_id) AS agreement_id,
               COALESCE(ours.size, theirs.size, 0) AS size, theirs.consumer_id,
               CASE WHEN what = 'acknowledged' AND ours.earlier_attempts = 0
                    THEN EXTRACT(epoch FROM entry.at - ours.first_sent_at)::float8 END AS seconds
        FROM entry
        LEFT JOIN LATERAL (
            SELECT agreement_id, size, first_sent_at, earlier_attempts FROM msh_outboundmessage
            WHERE link_id = (SELECT id FROM msh_outboundlink WHERE partner_id = entry.partner_id)
              AND message_id = entry.message_id LIMIT 1) ours ON entry.direction = 'out'
        LEFT JOIN LATERAL (
            SELECT agreement_id,
                   CASE WHEN entry.what = 'received' THEN (
                       SELECT sum(octet_length(content)) FROM msh_inboundpayload
                       WHERE message_id = msh_inboundmessage.id) END AS size,
                   CASE WHEN entry.what IN (
                       'delivered', 'rejected', 'in_doubt', 'delivery failed') THEN (
                       SELECT consumer_id FROM msh_delivery
                       WHERE message_id = msh_inboundmessage.id AND replay_of_id IS NULL
                       ORDER BY id DESC LIMIT 1) END AS consumer_id
            FROM msh_inboundmessage
            WHERE link_id = (SELECT id FROM msh_inboundlink WHERE partner_id = entry.partner_id)
              AND message_id = entry.message_id LIMIT 1) theirs ON entry.direction = 'in'
        WHERE entry.what IS NOT NULL),
    placed AS MATERIALIZED (
        SELECT unit, date_trunc(unit, at, %(zone)s) AS begins,
               CASE WHEN NOT whole THEN partner_id END AS partner_id,
               CASE WHEN NOT whole THEN agreement_id END AS agreement_id,
               NULL::bigint AS consumer_id, at, what, times, size, seconds
        FROM counted CROSS JOIN {_SLOTS} WHERE what <> 'delivered'
        UNION ALL
        SELECT unit, date_trunc(unit, at, %(zone)s), NULL, NULL, consumer_id, at, what, times,
               size, NULL
        FROM counted CROSS JOIN (VALUES ('minute'), ('hour')) AS of_consumer (unit)
        WHERE consumer_id IS NOT NULL),
    slot AS (
        INSERT INTO msh_statistics AS slot
            (unit, begins, partner_id, agreement_id, consumer_id, submitted, acknowledged, sent,
             received, bytes_out, bytes_in, duplicates, failed, delivered, rejected,
             delivery_failures, in_doubt, last_acknowledged_at)
        SELECT unit, begins, partner_id, agreement_id, consumer_id,
               count(*) FILTER (WHERE what = 'submitted'),
               count(*) FILTER (WHERE what = 'acknowledged'),
               count(*) FILTER (WHERE what = 'sent'),
               count(*) FILTER (WHERE what = 'received'),
               COALESCE(sum(size) FILTER (WHERE what IN ('acknowledged', 'sent')), 0),
               COALESCE(sum(size) FILTER (WHERE what = 'received'), 0),
               COALESCE(sum(times) FILTER (WHERE what = 'duplicate'), 0),
               count(*) FILTER (WHERE what = 'failed'),
               count(*) FILTER (WHERE what = 'delivered'),
               count(*) FILTER (WHERE what = 'rejected'),
               count(*) FILTER (WHERE what = 'delivery failed'),
               count(*) FILTER (WHERE what = 'in_doubt'),
               max(at) FILTER (WHERE what = 'acknowledged')
        FROM placed
        GROUP BY unit, begins, partner_id, agreement_id, consumer_id
        ON CONFLICT ON CONSTRAINT statistics_once DO UPDATE
        SET submitted = slot.submitted + EXCLUDED.submitted,
            acknowledged = slot.acknowledged + EXCLUDED.acknowledged,
            sent = slot.sent + EXCLUDED.sent,
            received = slot.received + EXCLUDED.received,
            bytes_out = slot.bytes_out + EXCLUDED.bytes_out,
            bytes_in = slot.bytes_in + EXCLUDED.bytes_in,
            duplicates = slot.duplicates + EXCLUDED.duplicates,
            failed = slot.failed + EXCLUDED.failed,
            delivered = slot.delivered + EXCLUDED.delivered,
            rejected = slot.rejected + EXCLUDED.rejected,
            delivery_failures = slot.delivery_failures + EXCLUDED.delivery_failures,
            in_doubt = slot.in_doubt + EXCLUDED.in_doubt,
            last_acknowledged_at =
                GREATEST(slot.last_acknowledged_at, EXCLUDED.last_acknowledged_at)
        RETURNING id, unit, begins, partner_id, agreement_id, consumer_id)
    INSERT INTO msh_acknowledgementtime AS known (slot_id, bucket, number)
    SELECT slot.id,
           CASE WHEN seconds < %(first)s THEN 0
                ELSE LEAST(%(buckets)s - 1, 1 + floor(ln(seconds / %(first)s) / ln(%(growth)s)))
           END::int AS bucket,
           count(*)
    FROM placed JOIN slot
      ON slot.unit = placed.unit AND slot.begins = placed.begins
     AND COALESCE(slot.partner_id, 0) = COALESCE(placed.partner_id, 0)
     AND COALESCE(slot.agreement_id, 0) = COALESCE(placed.agreement_id, 0)
     AND slot.consumer_id IS NULL AND placed.consumer_id IS NULL
    WHERE seconds IS NOT NULL AND placed.unit <> 'minute'
    GROUP BY slot.id, 2
    ON CONFLICT (slot_id, bucket) DO UPDATE SET number = known.number + EXCLUDED.number
""")

COUNT_ATTEMPTS = Write(f"""
    INSERT INTO msh_statistics AS slot
        (unit, begins, partner_id, agreement_id, retries)
    SELECT unit, date_trunc(unit, claimed_at, %(zone)s) AS begins,
           CASE WHEN NOT whole THEN message.partner_id END AS of_partner,
           CASE WHEN NOT whole THEN message.agreement_id END AS of_agreement,
           count(*)
    FROM msh_attempt attempt
    CROSS JOIN LATERAL (
        SELECT (SELECT partner_id FROM msh_outboundlink WHERE id = link_id) AS partner_id,
               agreement_id
        FROM msh_outboundmessage WHERE id = attempt.message_id LIMIT 1) message
    CROSS JOIN {_SLOTS}
    WHERE attempt.id > %(attempt_id)s AND attempt.id <= %(last)s AND attempt.number > 1
    GROUP BY unit, begins, of_partner, of_agreement
    ON CONFLICT ON CONSTRAINT statistics_once DO UPDATE
    SET retries = slot.retries + EXCLUDED.retries
""")

FIND_LINK_EVENTS = Statement(
    """
    SELECT partner_id, at, to_state = 'suspended' AS suspends FROM msh_history
    WHERE id > %(history_id)s AND id <= %(last)s AND subject = 'link' AND direction = 'out'
      AND (from_state = 'suspended') <> (to_state = 'suspended')
    ORDER BY id
    """,
    LinkEvent,
)
FIND_OPEN = Statement(
    """
    SELECT id, partner_id, began_at FROM msh_suspension
    WHERE partner_id = ANY(%(partner_ids)s) AND ended_at IS NULL
    """,
    OpenSuspension,
)
CLOSE = Write("UPDATE msh_suspension SET ended_at = %(ended_at)s WHERE id = %(id)s")
OPEN = Write("""
    INSERT INTO msh_suspension (partner_id, began_at, ended_at)
    VALUES (%(partner_id)s, %(began_at)s, %(ended_at)s)
""")

REMOVE_TIMES = Write("""
    DELETE FROM msh_acknowledgementtime WHERE slot_id IN (
        SELECT id FROM msh_statistics WHERE unit = %(unit)s AND begins < %(before)s)
""")
# Of each partner and consumer of whom something waits, and of the whole MSH in any case. What the
# partial indexes have is counted, not what is stored.
LOOK = Write("""
    WITH queued AS MATERIALIZED (
        SELECT link_id, count(*) AS waiting FROM (
            SELECT link_id FROM msh_outboundmessage
            WHERE state = 'queued' AND semantics = 'OnceAndOnlyOnce'
            UNION ALL
            SELECT link_id FROM msh_outboundmessage
            WHERE state = 'queued' AND semantics = 'BestEffort'
            UNION ALL
            SELECT link_id FROM msh_flight WHERE state = 'ready' AND attempt = 0) message
        GROUP BY link_id),
    seen AS (
        SELECT (SELECT partner_id FROM msh_outboundlink WHERE id = link_id) AS partner_id,
               NULL::bigint AS consumer_id, waiting
        FROM queued
        UNION ALL
        SELECT NULL, consumer_id, count(*) FROM (
            SELECT consumer_id FROM msh_delivery WHERE state IN ('blocked', 'parked', 'in_doubt')
            UNION ALL
            SELECT consumer_id FROM msh_delivery WHERE state = 'failed') delivery
        GROUP BY consumer_id
        UNION ALL
        SELECT NULL, NULL, (SELECT COALESCE(sum(waiting), 0) FROM queued))
    INSERT INTO msh_statistics (unit, begins, partner_id, consumer_id, waiting)
    SELECT 'minute', date_trunc('minute', clock_timestamp()), partner_id, consumer_id, waiting
    FROM seen
    ON CONFLICT ON CONSTRAINT statistics_once DO UPDATE SET waiting = EXCLUDED.waiting
""")
# Few of the minutes are of the whole MSH, and kept for longer.
REMOVE_MINUTES = Write("""
    DELETE FROM msh_statistics
    WHERE unit = 'minute' AND begins < %(before)s
      AND (partner_id IS NOT NULL OR consumer_id IS NOT NULL)
""")
REMOVE = Write("DELETE FROM msh_statistics WHERE unit = %(unit)s AND begins < %(before)s")
REMOVE_SUSPENSIONS = Write("DELETE FROM msh_suspension WHERE ended_at < %(before)s")
