"""Incidents that a person attends to, and those that are over by themselves."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models.functions import Now

from msh.models import Direction, History, Incident, IncidentNote, hot
from msh.protocol.effects import IncidentKind
from partners.models import Partner

from .actor import SYSTEM, Actor
from .receiving import MENDED

PASSING = (
    *MENDED,
    IncidentKind.STORE_SHORT,
    IncidentKind.BACKLOG,
    IncidentKind.ROUTE_FAILED,
)
"""What a partner was refused for until it is mended, here or there."""

# A later message of the partner was accepted: the numbers fit, there is room, there is a way (but
# a message may still wait for it). One that somebody is writing is left to the next look.
_RESOLVE_PASSED = """
    WITH passed AS (
        SELECT incident.id
        FROM msh_incident incident
        JOIN msh_inboundlink link ON link.partner_id = incident.partner_id
        JOIN msh_inboundmessage last
          ON last.link_id = link.id AND last.message_id = link.last_message_id
        WHERE incident.direction = 'in' AND incident.kind = ANY(%s)
          AND incident.resolved_at IS NULL
          AND incident.last_at < statement_timestamp() - %s::interval
          AND last.received_at > incident.last_at
          AND (incident.kind <> %s OR NOT EXISTS (
            SELECT FROM msh_inboundmessage waiting
            WHERE waiting.link_id = link.id AND waiting.state IN ('routed', 'withheld')
              AND waiting.forward_failures > 0))
        FOR NO KEY UPDATE OF incident SKIP LOCKED)
    UPDATE msh_incident incident
    SET resolved_at = statement_timestamp(), resolved_by = %s, resolution = %s
    FROM passed WHERE incident.id = passed.id
"""


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
        told = f"{incident.kind}; {before} → {to or 'nobody'}; {actor.reason}"
        _record(incident, actor, "IncidentAssigned", told)
    return bool(assigned)


def add_note(incident: Incident, actor: Actor) -> None:
    """The actor's reason is the text. A resolved incident takes notes too."""
    IncidentNote.objects.create(incident=incident, author=actor.name, text=actor.reason)


def _record(incident: Incident, actor: Actor, event: str, detail: str) -> None:
    History.objects.create(
        actor=actor.name,
        partner=incident.partner,
        direction=incident.direction,
        subject="link",
        event=event,
        detail=detail,
    )


def note_stuck(direction: Direction, reasons: Mapping[int, str], now: datetime) -> None:
    """Call an operator once for each partner id whose link in this direction is stuck; resolve
    what is so no more."""
    _note_condition(IncidentKind.STUCK, direction, reasons, now, "it moves again")


def note_retention_too_short(reasons: Mapping[int, str]) -> None:
    """Call an operator once for each partner id whose agreements keep ids for longer than is
    configured; resolve what is so no more."""
    ((clock,),) = hot.run((hot.CLOCK, ()))
    kind, now = IncidentKind.RETENTION_TOO_SHORT, clock.now
    _note_condition(kind, Direction.IN, reasons, now, "MSH_KEEP_MESSAGES is long enough")


def note_clock_doubtful(why: str) -> None:
    """Call an operator once because old rows are not removed; with "" it is over. An incident is
    one of a partner: this one, which is of all of them, is that of the first."""
    ((clock,),) = hot.run((hot.CLOCK, ()))
    first = Partner.objects.order_by("pk").values_list("pk", flat=True)[:1]
    reasons = dict.fromkeys(first, why) if why else {}
    kind, now = IncidentKind.CLOCK_DOUBTFUL, clock.now
    _note_condition(kind, Direction.IN, reasons, now, "old rows are removed again")


def _note_condition(
    kind: IncidentKind,
    direction: Direction,
    reasons: Mapping[int, str],
    now: datetime,
    resolution: str,
) -> None:
    opened = Incident.objects.filter(kind=kind, direction=direction, resolved_at=None)
    opened.exclude(partner_id__in=reasons).update(
        resolved_at=now, resolved_by=SYSTEM, resolution=resolution
    )
    known = set(opened.values_list("partner_id", flat=True))
    for partner_id, why in sorted(reasons.items()):
        if partner_id not in known:
            what = (partner_id, direction, kind, "", why)
            hot.run((hot.OPEN_INCIDENT, (*what, now, now)))


def resolve_passed(quiet: timedelta) -> None:
    """Resolve what partners were refused for, if it has not come again for `quiet` and a later
    message was accepted: else nobody would be called when it comes again next month."""
    what = ([kind.value for kind in PASSING], quiet, IncidentKind.ROUTE_FAILED)
    hot.run((_RESOLVE_PASSED, (*what, SYSTEM, "a later message was accepted")))
