"""Links whose messages fly, without numbers, and make no way: there is work, and nothing moves."""

from datetime import timedelta

from msh.store.engine import Statement, run

from .stuck_links import EVENT_TO_PARTNER, Unmoved

_NEAR = 10_000
"""Messages before and behind the oldest that waits, of all partners, among which one of its link
is looked for that has ended."""

# What has moved last: the oldest that waits for a place was submitted, the last of those under way
# was sent for the first time, one was acknowledged, or something happened to the link. Held
# messages, and those of a conversation that stands still, have their incidents. Where nothing is
# under way at this moment, a message of the link may have ended a moment ago: it is looked for
# only then, near the oldest.
_UNMOVED = Statement(
    f"""
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
        SELECT GREATEST(waiting.submitted_at, started.at, event.at) AS at) known
    LEFT JOIN LATERAL (
        SELECT max(completed_at) AS at FROM msh_outboundmessage
        WHERE id BETWEEN waiting.id - {_NEAR} AND waiting.id + {_NEAR} AND link_id = link.id
          AND started.under_way = 0
          AND known.at < statement_timestamp() - %(seconds)s * interval '1 second') ended ON true
    CROSS JOIN LATERAL (SELECT GREATEST(known.at, ended.at) AS at) moved
    WHERE (link.state <> 'suspended' OR link.suspended_for = 'operator')
      AND (waiting.id IS NOT NULL OR started.under_way > 0)
      AND moved.at < statement_timestamp() - %(seconds)s * interval '1 second'
    ORDER BY moved.at LIMIT %(limit)s
""",
    Unmoved,
)


def find_unmoved_flights(age: timedelta, limit: int) -> list[Unmoved]:
    return run(_UNMOVED(seconds=age.total_seconds(), limit=limit))[0]
