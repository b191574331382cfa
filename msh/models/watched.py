"""Links that somebody should look after: silent partners to be probed, work that makes no way."""

from datetime import datetime, timedelta
from typing import NamedTuple

from msh.protocol.effects import SILENCE

from . import hot

_PROBES = """
    SELECT link.partner_id
    FROM msh_outboundlink link JOIN partners_partner partner ON partner.id = link.partner_id
    WHERE link.state = 'suspended' AND link.in_flight_id IS NOT NULL
      AND link.suspended_for = ANY(%s) AND partner.probe_interval > 0
      AND link.suspended_since + partner.probe_interval * interval '1 second'
          <= statement_timestamp()
    ORDER BY link.suspended_since LIMIT %s
    FOR NO KEY UPDATE OF link SKIP LOCKED
"""

# What has moved last: the message was submitted, the one before it was acknowledged, or something
# happened to the link itself, such as a resume.
_UNMOVED = """
    SELECT link.partner_id, moved.at
    FROM msh_outboundlink link
    LEFT JOIN msh_outboundmessage flying ON flying.id = link.in_flight_id
    LEFT JOIN LATERAL (
        SELECT submitted_at FROM msh_outboundmessage
        WHERE link_id = link.id AND state = 'queued' AND semantics = 'OnceAndOnlyOnce'
        ORDER BY id LIMIT 1) queued ON true
    LEFT JOIN msh_outboundmessage before
           ON before.link_id = link.id AND before.epoch = COALESCE(flying.epoch, link.epoch)
          AND before.sequence_number = COALESCE(flying.sequence_number, link.next_number) - 1
    LEFT JOIN LATERAL (
        SELECT at FROM msh_history
        WHERE partner_id = link.partner_id AND direction = 'out' AND subject = 'link'
        ORDER BY id DESC LIMIT 1) event ON true
    CROSS JOIN LATERAL (
        SELECT GREATEST(COALESCE(flying.submitted_at, queued.submitted_at),
                        before.completed_at, event.at) AS at) moved
    WHERE link.state <> 'suspended'
      AND (flying.id IS NOT NULL OR queued.submitted_at IS NOT NULL)
      AND moved.at < statement_timestamp() - %s * interval '1 second'
    ORDER BY moved.at LIMIT %s
"""


class Unmoved(NamedTuple):
    """A link that has work, and when something moved on it last."""

    partner_id: int
    at: datetime


def lock_probes(limit: int) -> list[int]:
    """Partners whose probe is due; their lanes are locked."""
    kinds = [kind.value for kind in SILENCE]
    (rows,) = hot.run((_PROBES, (kinds, limit)))
    return [row.partner_id for row in rows]


def unmoved(age: timedelta, limit: int) -> list[Unmoved]:
    """Links with work on which nothing has moved for `age`, the longest first."""
    (rows,) = hot.run((_UNMOVED, (age.total_seconds(), limit)))
    return [Unmoved(row.partner_id, row.at) for row in rows]
