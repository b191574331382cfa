"""Links of ebMS 2.0 partners that have work and make no progress."""

from datetime import timedelta

from msh.store.engine import Statement, run

from .stuck_links import EVENT_TO_PARTNER, Unmoved

# What has moved last: the oldest that waits for a place was submitted, the last of those under way
# was sent for the first time, or something happened to the link. Held messages, and those of a
# stopped conversation, have their incidents. A partner that has acknowledged another message
# meanwhile is not stuck. This is asked only where all else is old: the history of an hour may have
# a million rows. The statistics know when each partner acknowledged something last; of the history
# is read only what they have not counted yet, by its ids: OFFSET 0 keeps `at` from choosing the
# rows. If they count no longer, or never did, it is read by `at`, not further back than the limit.
# A day that began two days before the limit ended before it, in any time zone.
_UNMOVED = Statement(
    f"""
    WITH unmoved AS MATERIALIZED (
        SELECT link.partner_id, moved.at, started.under_way
        FROM msh_outboundlink link
        LEFT JOIN LATERAL (
            SELECT message_id FROM msh_flight
            WHERE link_id = link.id AND state = 'ready' AND NOT waits_turn AND NOT under_way
            ORDER BY message_id LIMIT 1) ready ON true
        LEFT JOIN LATERAL (
            SELECT message_id FROM msh_flight
            WHERE link_id = link.id AND waits_turn AND ordered_in_id IS NULL
            ORDER BY message_id LIMIT 1) unsorted ON true
        LEFT JOIN LATERAL (
            SELECT head FROM msh_outboundconversation
            WHERE link_id = link.id AND state IN ('beginning', 'running') AND head IS NOT NULL
            ORDER BY head LIMIT 1) ordered ON true
        CROSS JOIN LATERAL (
            SELECT max(attempt.claimed_at) AS at, count(*) AS under_way
            FROM msh_flight flight
            LEFT JOIN msh_attempt attempt
              ON attempt.message_id = flight.message_id AND attempt.number = 1
            WHERE flight.link_id = link.id AND flight.under_way) started
        LEFT JOIN msh_outboundmessage waiting
               ON waiting.id = LEAST(ready.message_id, unsorted.message_id, ordered.head)
        {EVENT_TO_PARTNER}
        CROSS JOIN LATERAL (
            SELECT GREATEST(waiting.submitted_at, started.at, event.at) AS at) moved
        WHERE EXISTS (SELECT FROM msh_flight)
          AND (link.state <> 'suspended' OR link.suspended_for = 'operator')
          AND (waiting.id IS NOT NULL OR started.under_way > 0)
          AND moved.at < statement_timestamp() - %(seconds)s * interval '1 second'),
    counted AS MATERIALIZED (
        SELECT history_id FROM msh_statisticsprogress
        WHERE id = 1 AND up_to >= statement_timestamp() - %(seconds)s * interval '1 second')
    SELECT partner_id, at, under_way FROM unmoved
    WHERE partner_id NOT IN (
        SELECT partner_id FROM msh_statistics
        WHERE unit = 'day' AND partner_id IS NOT NULL
          AND begins > statement_timestamp() - %(seconds)s * interval '1 second' - interval '2 days'
          AND last_acknowledged_at >= statement_timestamp() - %(seconds)s * interval '1 second')
      AND partner_id NOT IN (
        SELECT partner_id FROM (
            SELECT * FROM msh_history
            WHERE id > (SELECT history_id FROM counted) AND EXISTS (SELECT FROM counted)
            ORDER BY id DESC OFFSET 0) uncounted
        WHERE direction = 'out' AND to_state = 'acknowledged'
          AND at >= statement_timestamp() - %(seconds)s * interval '1 second'
        UNION ALL
        SELECT partner_id FROM msh_history
        WHERE direction = 'out' AND to_state = 'acknowledged'
          AND at >= statement_timestamp() - %(seconds)s * interval '1 second'
          AND NOT EXISTS (SELECT FROM counted))
    ORDER BY at LIMIT %(limit)s
""",
    Unmoved,
)


def find_unmoved_flights(age: timedelta, limit: int) -> list[Unmoved]:
    return run(_UNMOVED(seconds=age.total_seconds(), limit=limit))[0]
