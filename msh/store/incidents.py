"""Incidents: opened once per cause, counted while open, resolved by operators or by themselves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from django.db.models.functions import Now

from msh.models import Direction, Incident, IncidentNote
from msh.models.history import SYSTEM
from msh.protocol.kinds import IncidentKind
from msh.protocol.stuck import HELD
from partners.models import Partner

from . import history
from .clock import read_clock
from .engine import Call, Order, Write, run
from .history import Actor

NUMBERS_OUT_OF_STEP = (
    IncidentKind.SEQUENCE_GAP,
    IncidentKind.SEQUENCE_STALE,
    IncidentKind.SEQUENCE_CONFLICT,
    IncidentKind.RESET_HELD,
)
"""The kinds that are over when an operator says which number is expected."""

PASSING = (
    *NUMBERS_OUT_OF_STEP,
    IncidentKind.STORE_SHORT,
    IncidentKind.BACKLOG,
    IncidentKind.ROUTE_FAILED,
)
"""Kinds of incidents for which messages of a partner are refused until the cause is gone, here or
there."""


@dataclass(frozen=True)
class NewIncident:
    """The argument of `open_incident`."""

    partner_id: int
    direction: str
    kind: str
    message_id: str
    detail: str
    at: datetime
    consumer: str = ""
    reason: str = ""


# Of two transactions the one that read the clock first may be the second to write.
OPEN = Write(
    """
    INSERT INTO msh_incident
        (partner_id, direction, kind, message_id, detail, reason, consumer, opened_at, last_at)
    VALUES (%(partner_id)s, %(direction)s, %(kind)s, %(message_id)s, %(detail)s, %(reason)s,
            %(consumer)s, %(at)s, %(at)s)
    ON CONFLICT (partner_id, direction, kind) WHERE resolved_at IS NULL
    DO UPDATE SET count = msh_incident.count + 1, last_at = EXCLUDED.last_at,
                  opened_at = LEAST(msh_incident.opened_at, EXCLUDED.opened_at),
                  detail = EXCLUDED.detail, message_id = EXCLUDED.message_id,
                  reason = EXCLUDED.reason, consumer = EXCLUDED.consumer
""",
    order=Order.INCIDENT,
)

DONE = """
    SELECT %(partner_id)s::bigint AS partner_id, %(at)s::timestamptz AS at,
           %(actor)s::text AS actor, %(resolution)s::text AS resolution
"""
"""A row for a statement that resolves incidents of a partner: who has done what ends them."""
DONE_MANY = """
    SELECT DISTINCT ON (partner_id) partner_id, at, actor, resolution
    FROM json_to_recordset(%(rows)s::json)
         AS one (partner_id bigint, at timestamptz, actor text, resolution text)
"""
"""The same several times: one transaction is one act."""

RESOLVE_OUTBOUND = Write(
    """
    UPDATE msh_incident
    SET resolved_at = %(at)s, resolved_by = %(actor)s, resolution = %(resolution)s
    WHERE partner_id = %(partner_id)s AND direction = 'out' AND resolved_at IS NULL
      -- A conversation that stands still stays so; what was done alone is for a person to judge.
      AND kind NOT IN ('conversation_stopped', 'went_ahead_alone')
""",
    order=Order.INCIDENT,
)

APPEND_TO_DETAIL = Write(
    """
    UPDATE msh_incident SET detail = detail || %(text)s
    WHERE partner_id = %(partner_id)s AND direction = 'out' AND message_id = %(message_id)s
""",
    order=Order.INCIDENT,
)

# A partner may repeat an Error as often as it likes.
EXPLAIN = Write(
    """
    UPDATE msh_incident
    SET detail = detail || '; ' || left(%(text)s, 500), reason = %(reason)s
    WHERE resolved_at IS NULL
      AND (partner_id, direction, message_id) = (%(partner_id)s, 'out', %(message_id)s)
      AND position('; ' || left(%(text)s, 500) || '; ' IN '; ' || detail || '; ') = 0
      AND length(detail) < 2000
""",
    order=Order.INCIDENT,
)

# A later message of the partner was accepted: the numbers fit, there is room, there is a route
# (but a message may still wait for it). A row that somebody is writing is left to the next poll.
_RESOLVE_PASSED = Write("""
    WITH passed AS (
        SELECT incident.id
        FROM msh_incident incident
        JOIN msh_inboundlink link ON link.partner_id = incident.partner_id
        JOIN msh_inboundmessage last
          ON last.link_id = link.id AND last.message_id = link.last_message_id
        WHERE incident.direction = 'in' AND incident.kind = ANY(%(kinds)s)
          AND incident.resolved_at IS NULL
          AND incident.last_at < statement_timestamp() - %(quiet)s::interval
          AND last.received_at > incident.last_at
          AND (incident.kind <> %(route_failed)s OR NOT EXISTS (
            SELECT FROM msh_inboundmessage waiting
            WHERE waiting.link_id = link.id AND waiting.state IN ('routed', 'withheld')
              AND waiting.forward_failures > 0))
        FOR NO KEY UPDATE OF incident SKIP LOCKED)
    UPDATE msh_incident incident
    SET resolved_at = statement_timestamp(), resolved_by = %(actor)s, resolution = %(resolution)s
    FROM passed WHERE incident.id = passed.id
""")


def open_incident(new: NewIncident) -> Call[None]:
    """Open it, or count it in the one that is open for this partner, direction and kind."""
    return OPEN.of(new)


def open_now(partner_id: int, direction: str, kind: str, message_id: str, detail: str) -> None:
    run(open_incident(NewIncident(partner_id, direction, kind, message_id, detail, read_clock())))


def processing_failed(
    partner_id: int, direction: str, message_id: str, why: str, now: datetime
) -> list[Call[None]]:
    kind = IncidentKind.PROCESSING_FAILED
    row = history.HistoryRow(
        partner_id,
        direction,
        "ProcessingFailed",
        message_id,
        detail=why,
        subject=history.MESSAGE if message_id else history.LINK,
        at=now,
    )
    incident = NewIncident(partner_id, direction, kind, message_id, why, now)
    return [open_incident(incident), history.insert(row)]


def resolve_incident(incident: Incident, actor: Actor) -> bool:
    """Mark it resolved, with who and why. False, and nothing changed, if it was."""
    resolved = Incident.objects.filter(pk=incident.pk, resolved_at=None).update(
        resolved_at=Now(), resolved_by=actor.name, resolution=actor.reason
    )
    if resolved:
        _record(incident, actor, "IncidentResolved", f"{incident.kind}; {actor.reason}")
    return bool(resolved)


def assign_incident(incident: Incident, to: str, actor: Actor) -> bool:
    """Give an open incident to a user, or with "" to nobody. False if it is resolved."""
    assigned = Incident.objects.filter(pk=incident.pk, resolved_at=None).update(assigned_to=to)
    if assigned:
        before = incident.assigned_to or "nobody"
        detail = f"{incident.kind}; {before} → {to or 'nobody'}; {actor.reason}"
        _record(incident, actor, "IncidentAssigned", detail)
    return bool(assigned)


def add_note(incident: Incident, actor: Actor) -> None:
    IncidentNote.objects.create(incident=incident, author=actor.name, text=actor.reason)


def resolve_numbers_out_of_step(partner_id: int, actor: Actor) -> None:
    Incident.objects.filter(
        partner=partner_id, direction="in", kind__in=NUMBERS_OUT_OF_STEP, resolved_at=None
    ).update(resolved_at=Now(), resolved_by=actor.name, resolution=actor.reason)


def note_stuck(
    direction: Direction,
    reasons: Mapping[int, str],
    now: datetime,
    consumers: Mapping[int, str] | None = None,
) -> None:
    """Open an incident once for each partner id whose link in this direction is stuck; resolve
    those of links that are not any more. `consumers`: the names of those that keep a link stuck."""
    kind = IncidentKind.STUCK
    _note_condition(kind, direction, reasons, now, "traffic resumed", consumers or {})


def resolve_held(partner_id: int, actor: Actor) -> None:
    """Resolve the incidents that were opened only because an operator held the deliveries of a
    partner. Deliveries that are stuck for another reason are found again."""
    Incident.objects.filter(
        partner=partner_id,
        direction=Direction.IN,
        kind=IncidentKind.STUCK,
        detail__endswith=HELD,
        resolved_at=None,
    ).update(resolved_at=Now(), resolved_by=actor.name, resolution=actor.reason)


def open_stuck(direction: Direction) -> set[int]:
    """Partners whose link in this direction was found stuck."""
    opened = Incident.objects.filter(kind=IncidentKind.STUCK, resolved_at=None)
    return set(opened.filter(direction=direction).values_list("partner_id", flat=True))


def note_retention_too_short(reasons: Mapping[int, str]) -> None:
    kind, resolution = IncidentKind.RETENTION_TOO_SHORT, "MSH_KEEP_MESSAGES is long enough"
    _note_condition(kind, Direction.IN, reasons, read_clock(), resolution)


def note_webhook_failed(reasons: Mapping[int, str]) -> None:
    kind, resolution = IncidentKind.WEBHOOK_FAILED, "the webhook takes events again"
    _note_condition(kind, Direction.IN, reasons, read_clock(), resolution)


def has_open(kinds: Iterable[IncidentKind]) -> bool:
    return Incident.objects.filter(kind__in=kinds, resolved_at=None).exists()


def note_ending(kind: IncidentKind, reasons: Mapping[int, str]) -> None:
    """Of certificates and agreements: when something ends, by partner."""
    _note_condition(kind, Direction.IN, reasons, read_clock(), "it has a successor, or less time")


def note_clock_doubtful(why: str) -> None:
    """Open an incident once because old rows are not removed; with "" it is resolved. An incident
    belongs to a partner: this one, which concerns all of them, to the first."""
    first = Partner.objects.order_by("pk").values_list("pk", flat=True)[:1]
    reasons = dict.fromkeys(first, why) if why else {}
    kind, resolution = IncidentKind.CLOCK_DOUBTFUL, "old rows are removed again"
    _note_condition(kind, Direction.IN, reasons, read_clock(), resolution)


def resolve_passed(quiet: timedelta) -> None:
    """Resolve what partners were refused for, if it did not recur for `quiet` and a later message
    was accepted: otherwise nobody would be called when it recurs next month."""
    run(
        _RESOLVE_PASSED(
            kinds=[kind.value for kind in PASSING],
            quiet=quiet,
            route_failed=IncidentKind.ROUTE_FAILED,
            actor=SYSTEM,
            resolution="a later message was accepted",
        )
    )


def _note_condition(
    kind: IncidentKind,
    direction: Direction,
    reasons: Mapping[int, str],
    now: datetime,
    resolution: str,
    consumers: Mapping[int, str] = MappingProxyType({}),
) -> None:
    opened = Incident.objects.filter(kind=kind, direction=direction, resolved_at=None)
    opened.exclude(partner_id__in=reasons).update(
        resolved_at=now, resolved_by=SYSTEM, resolution=resolution
    )
    known = set(opened.values_list("partner_id", flat=True))
    for partner_id, why in sorted(reasons.items()):
        if partner_id not in known:
            consumer = consumers.get(partner_id, "")
            run(open_incident(NewIncident(partner_id, direction, kind, "", why, now, consumer)))


def _record(incident: Incident, actor: Actor, event: str, detail: str) -> None:
    history.record(
        history.HistoryRow(
            incident.partner_id,
            incident.direction,
            event,
            detail=detail,
            subject=history.LINK,
            actor=actor.name,
        )
    )
