"""The honest pairs' messages, by the databases of the MSHs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import psycopg

from demo.machines import Machine

from .figures import Exchange

_LOOK = """
SELECT count(*) FILTER (WHERE kind = 'out'),
       count(*) FILTER (WHERE kind = 'out' AND state = 'acknowledged'),
       count(*) FILTER (WHERE state IN ('queued', 'in_flight', 'accepted')),
       ARRAY(SELECT partner.name::text
             FROM msh_outboundlink link JOIN partners_partner partner ON partner.id = partner_id
             WHERE link.state = 'suspended' AND partner.name LIKE 'pair-%')
FROM (
    SELECT 'out' AS kind, message_id, state FROM msh_outboundmessage
    UNION ALL
    SELECT 'in', message_id, state FROM msh_inboundmessage
) message
WHERE message_id NOT LIKE 'hostile-%'
"""

_EXCHANGES = """
SELECT extract(epoch FROM submitted_at)::float,
       extract(epoch FROM completed_at - submitted_at)::float
FROM msh_outboundmessage
WHERE message_id NOT LIKE 'hostile-%' AND semantics = 'OnceAndOnlyOnce'
"""


@dataclass(frozen=True, slots=True)
class State:
    submitted: int = 0
    acknowledged: int = 0
    open_messages: int = 0
    suspended: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By MSH, names of honest partners."""


def look(machines: Sequence[Machine]) -> State:
    """Of all together."""
    submitted = acknowledged = open_messages = 0
    suspended = {}
    for machine in machines:
        with psycopg.connect(machine.database_url) as connection:
            row = connection.execute(_LOOK).fetchone()
        assert row is not None
        submitted, acknowledged = submitted + row[0], acknowledged + row[1]
        open_messages += row[2]
        suspended[machine.name] = row[3]
    return State(submitted, acknowledged, open_messages, suspended)


def exchanges(database_url: str) -> Iterator[Exchange]:
    """What one MSH has sent for honest pairs; without end, what is not acknowledged."""
    with psycopg.connect(database_url) as connection:
        for at, seconds in connection.execute(_EXCHANGES):
            yield Exchange(at, seconds) if seconds is not None else Exchange(at)


def newest(database_url: str, partner: str) -> tuple[int, str] | None:
    """Row and MessageId of the last message that came from a partner."""
    with psycopg.connect(database_url) as connection:
        found = connection.execute(_NEWEST, [partner]).fetchone()
    return (found[0], found[1]) if found else None


_NEWEST = """
SELECT message.id, message.message_id::text
FROM msh_inboundmessage message JOIN msh_inboundlink link ON link.id = link_id
     JOIN partners_partner partner ON partner.id = partner_id
WHERE partner.name = %s ORDER BY message.id DESC LIMIT 1
"""
