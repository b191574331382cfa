"""The counts for /metrics: a few statements in one round trip, each answered by a partial index and
bounded by MOST rows, or by a table that has a row for each partner."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msh.store import server
from msh.store.engine import Statement, run

MOST = 100_000
"""Rows that are counted at most of each kind."""
ATTEMPT_BOUNDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: upper bounds of the histogram of attempts."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many wait, and for how many seconds the oldest of them has."""

    number: int
    oldest: float


@dataclass(frozen=True, slots=True)
class Counted:
    label: str
    number: int


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts that ended in the last minute, by outcome and place among ATTEMPT_BOUNDS; `seconds`
    is the sum of their durations."""

    outcome: str
    place: int
    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Minute:
    sent: int
    received: int
    retries: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class PartnerState:
    name: str
    suspended: bool
    queued: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All of it. Of `minute`, the last one that is over, there is none before it was counted."""

    links: Sequence[Counted]
    suspended: Waiting
    queued: Waiting
    undelivered: Waiting
    numbers: Sequence[Counted]
    deliveries: Sequence[Counted]
    incidents: Sequence[Counted]
    attempts: Sequence[Attempts]
    minute: Minute | None
    partners: Sequence[PartnerState]
    database_bytes: int
    snapshot: server.SnapshotHolder | None
    dead_rows: Sequence[Counted]


_LINKS = Statement(
    "SELECT state AS label, count(*) AS number FROM msh_outboundlink GROUP BY state", Counted
)
_SUSPENDED = Statement(
    """
    SELECT count(*) AS number,
           COALESCE(EXTRACT(epoch FROM now() - min(suspended_since)), 0)::float8 AS oldest
    FROM msh_outboundlink WHERE state = 'suspended'
    """,
    Waiting,
)
# The oldest has the smallest id.
_QUEUED = Statement(
    """
    SELECT waiting.number,
           COALESCE(EXTRACT(epoch FROM now() - message.submitted_at), 0)::float8 AS oldest
    FROM (
        SELECT count(*) AS number, min(id) AS first
        FROM (
            (SELECT id FROM msh_outboundmessage
             WHERE state = 'queued' AND semantics = 'OnceAndOnlyOnce' LIMIT %(most)s)
            UNION ALL
            (SELECT id FROM msh_outboundmessage
             WHERE state = 'queued' AND semantics = 'BestEffort' LIMIT %(most)s)
            UNION ALL
            (SELECT message_id FROM msh_flight
             WHERE state = 'ready' AND attempt = 0 LIMIT %(most)s)) one) waiting
    LEFT JOIN msh_outboundmessage message ON message.id = waiting.first
    """,
    Waiting,
)
_UNDELIVERED = Statement(
    """
    SELECT waiting.number,
           COALESCE(EXTRACT(epoch FROM now() - message.received_at), 0)::float8 AS oldest
    FROM (
        SELECT count(*) AS number, min(id) AS first
        FROM (
            (SELECT id FROM msh_inboundmessage
             WHERE state = 'accepted' AND ordered_in_id IS NULL LIMIT %(most)s)
            UNION ALL
            (SELECT id FROM msh_inboundmessage
             WHERE state = 'accepted' AND ordered_in_id IS NOT NULL LIMIT %(most)s)) one) waiting
    LEFT JOIN msh_inboundmessage message ON message.id = waiting.first
    """,
    Waiting,
)
_NUMBERS = Statement(
    """
    SELECT 'in_flight' AS label,
           (SELECT count(*) FROM msh_outboundlink WHERE in_flight_id IS NOT NULL)
           + (SELECT count(*) FROM (
                SELECT FROM msh_flight WHERE under_way LIMIT %(most)s) one)
           + (SELECT count(*) FROM (
                SELECT FROM msh_outboundmessage
                WHERE state = 'in_flight' AND semantics = 'BestEffort' LIMIT %(most)s) one)
           AS number
    UNION ALL
    SELECT 'held', count(*) FROM (
        SELECT FROM msh_flight WHERE state = 'held' LIMIT %(most)s) one
    UNION ALL
    SELECT 'held_in', count(*) FROM (
        SELECT FROM msh_inboundmessage
        WHERE state = 'held' AND ordered_in_id IS NOT NULL LIMIT %(most)s) one
    UNION ALL
    SELECT 'signals', count(*) FROM (
        SELECT FROM msh_signal WHERE pending > 0 LIMIT %(most)s) one
    UNION ALL
    SELECT 'notices', count(*) FROM (
        SELECT FROM msh_operatornotice
        WHERE sent_at IS NULL AND NOT given_up LIMIT %(most)s) one
    UNION ALL
    SELECT 'conversations', count(*) FROM (
        SELECT FROM msh_outboundconversation WHERE state = 'stopped' LIMIT %(most)s) one
    """,
    Counted,
)
_DELIVERIES = Statement(
    """
    SELECT state AS label, count(*) AS number
    FROM (
        (SELECT state FROM msh_delivery
         WHERE state IN ('blocked', 'parked', 'in_doubt') LIMIT %(most)s)
        UNION ALL
        (SELECT state FROM msh_delivery
         WHERE due IS NOT NULL AND state IN ('processing', 'failed') LIMIT %(most)s)) one
    GROUP BY state
    """,
    Counted,
)
_INCIDENTS = Statement(
    """
    SELECT kind AS label, count(*) AS number FROM msh_incident
    WHERE resolved_at IS NULL GROUP BY kind
    """,
    Counted,
)
# No attempt lasts for more than a few minutes: MSH_HTTP_DEADLINE. The index is by claimed_at.
_ATTEMPTS = Statement(
    """
    SELECT outcome, width_bucket(seconds, %(bounds)s::float8[]) AS place, count(*) AS number,
           sum(seconds)::float8 AS seconds
    FROM (
        SELECT outcome, EXTRACT(epoch FROM ended_at - claimed_at)::float8 AS seconds
        FROM msh_attempt
        WHERE claimed_at >= now() - interval '5 minutes'
          AND ended_at >= now() - interval '1 minute'
        LIMIT %(most)s) ended
    GROUP BY 1, 2
    """,
    Attempts,
)
_MINUTE = Statement(
    """
    SELECT COALESCE(acknowledged, 0) AS sent, COALESCE(received, 0) AS received,
           COALESCE(retries, 0) AS retries, COALESCE(duplicates, 0) AS duplicates
    FROM msh_statisticsprogress progress
    LEFT JOIN msh_statistics slot
           ON slot.unit = 'minute' AND slot.partner_id IS NULL AND slot.agreement_id IS NULL
          AND slot.consumer_id IS NULL
          AND slot.begins = date_trunc('minute', progress.up_to) - interval '1 minute'
    WHERE progress.up_to IS NOT NULL
    """,
    Minute,
)
_PARTNERS = Statement(
    """
    SELECT partner.name, link.state = 'suspended' AS suspended,
           (SELECT count(*) FROM (
                SELECT FROM msh_outboundmessage
                WHERE link_id = link.id AND state = 'queued' AND semantics = 'OnceAndOnlyOnce'
                LIMIT %(most)s) one)
           + (SELECT count(*) FROM (
                SELECT FROM msh_flight
                WHERE link_id = link.id AND state = 'ready' AND attempt = 0
                LIMIT %(most)s) one) AS queued
    FROM partners_partner partner JOIN msh_outboundlink link ON link.partner_id = partner.id
    WHERE partner.name = ANY(%(names)s)
    """,
    PartnerState,
)
_SIZE = Statement(
    "SELECT 'database' AS label, pg_database_size(current_database()) AS number", Counted
)


# As autovacuum counts them. The tables that polls read, and each message changes.
_DEAD_ROWS = Statement(
    """
    SELECT relname::text AS label, n_dead_tup AS number FROM pg_stat_user_tables
    WHERE relname IN ('msh_outboundlink', 'msh_inboundlink', 'msh_outboundmessage',
                      'msh_inboundmessage', 'msh_signal', 'msh_delivery', 'msh_flight')
      AND schemaname = current_schema()
    """,
    Counted,
)


def figures(partners: Sequence[str]) -> Figures:
    """`partners`: names of those that are told apart. Raises DatabaseError."""
    most: dict[str, Any] = {"most": MOST}
    found = run(
        _LINKS(),
        _SUSPENDED(),
        _QUEUED(**most),
        _UNDELIVERED(**most),
        _NUMBERS(**most),
        _DELIVERIES(**most),
        _INCIDENTS(),
        _ATTEMPTS(bounds=list(ATTEMPT_BOUNDS), **most),
        _MINUTE(),
        _PARTNERS(names=list(partners), **most),
        _SIZE(),
        _DEAD_ROWS(),
    )
    links, suspended, queued, undelivered, numbers, deliveries, incidents, attempts, *rest = found
    minute, named, size, dead_rows = rest
    return Figures(
        links=links,
        suspended=suspended[0],
        queued=queued[0],
        undelivered=undelivered[0],
        numbers=numbers,
        deliveries=deliveries,
        incidents=incidents,
        attempts=attempts,
        minute=minute[0] if minute else None,
        partners=named,
        database_bytes=size[0].number,
        snapshot=server.oldest_snapshot(),
        dead_rows=dead_rows,
    )
