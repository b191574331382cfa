"""Heads of orders that no consumer takes: an incident each, until one does."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from msh.models.history import SYSTEM
from msh.protocol.kinds import IncidentKind
from msh.store.clock import read_clock
from msh.store.engine import Statement, Write, run, run_all
from msh.store.incidents import NewIncident, open_incident

from .polling_sql import (
    CONSUMERS_OF,
    FIRST_IN_ORDER,
    FIRST_OF_LINK,
    HEAD_OF_LINK,
    HEADS,
    LEAP_TO_HEADS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unclaimed:
    """The first undelivered message of an order (see `NewHead`), which no consumer takes."""

    message_key: int
    order_key: int
    partner_id: int
    consumer_id: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The service and action that a consumer has to match."""

    partner_id: int
    service_interface: str
    action: str


_NO_CONSUMER = f"""
    direction = 'in' AND kind = '{IncidentKind.NO_CONSUMER}' AND resolved_at IS NULL
"""

_IS_UNCLAIMED = f"""
    WHERE consumer.id IS NULL AND NOT EXISTS (
        SELECT FROM msh_incident WHERE partner_id = link.partner_id AND {_NO_CONSUMER})
"""
_FIND = Statement(
    f"""
    {LEAP_TO_HEADS} {HEADS} {_IS_UNCLAIMED}
    UNION ALL {CONSUMERS_OF.format(FIRST_IN_ORDER)} {_IS_UNCLAIMED}
""",
    _Unclaimed,
)
_OF_INCIDENT = "(SELECT id FROM msh_inboundlink WHERE partner_id = incident.partner_id)"
# By open incident. OFFSET keeps the searches of each from being joined with those of all.
_RESOLVE = Write(
    f"""
    WITH claimed AS (
        SELECT id FROM msh_incident incident
        WHERE {_NO_CONSUMER}
          AND EXISTS (
            SELECT FROM partners_partner WHERE id = incident.partner_id AND delivers OFFSET 0)
          AND NOT EXISTS (
            {CONSUMERS_OF.format(HEAD_OF_LINK.format(_OF_INCIDENT))}
            WHERE consumer.id IS NULL OFFSET 0)
          AND NOT EXISTS (
            {CONSUMERS_OF.format(FIRST_OF_LINK.format(_OF_INCIDENT))}
            WHERE consumer.id IS NULL OFFSET 0)
        ORDER BY partner_id FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE msh_incident incident
    SET resolved_at = statement_timestamp(), resolved_by = %(actor)s,
        resolution = %(resolution)s
    FROM claimed WHERE incident.id = claimed.id
"""
)
# Of each partner one, where the search ends.
_FIRST_OF_PARTNERS = Statement(
    f"""
    SELECT incident.partner_id, message.service_interface, message.action
    FROM unnest(%(partner_ids)s::bigint[]) AS incident (partner_id)
    CROSS JOIN LATERAL (
        {CONSUMERS_OF.format(HEAD_OF_LINK.format(_OF_INCIDENT))} WHERE consumer.id IS NULL
        UNION ALL
        {CONSUMERS_OF.format(FIRST_OF_LINK.format(_OF_INCIDENT))} WHERE consumer.id IS NULL
        LIMIT 1) unclaimed
    CROSS JOIN LATERAL (
        SELECT service_interface, action FROM msh_inboundmessage
        WHERE id = unclaimed.message_key LIMIT 1) message
""",
    Wanted,
)


def first_unclaimed(partner_ids: Collection[int]) -> Mapping[int, Wanted]:
    """For each partner: service and action of the first message that no consumer matches."""
    if not partner_ids:
        return {}
    (rows,) = run(_FIRST_OF_PARTNERS(partner_ids=list(partner_ids)))
    return {row.partner_id: row for row in rows}


def alarm_unclaimed() -> int:
    """Open an incident for each pair with a head that no consumer takes; how many were opened.
    Those of pairs whose heads are taken now are resolved."""
    rows, _ = run(_FIND(), _RESOLVE(actor=SYSTEM, resolution="a consumer takes it now"))
    text = "no consumer takes this partner, ServiceInterface and Action: add one"
    partners = sorted({row.partner_id for row in rows})
    if partners:
        now = read_clock()
        what = ("in", IncidentKind.NO_CONSUMER, "", text, now)
        run_all([open_incident(NewIncident(partner_id, *what)) for partner_id in partners])
    return len(partners)
