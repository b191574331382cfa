"""Incidents that a person attends to, and those of links that are stuck."""

from collections.abc import Mapping
from datetime import datetime

from django.db.models.functions import Now

from msh.models import Direction, History, Incident, IncidentNote, hot
from msh.protocol.effects import IncidentKind

from .actor import SYSTEM, Actor


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
    opened = Incident.objects.filter(kind=IncidentKind.STUCK, direction=direction, resolved_at=None)
    opened.exclude(partner_id__in=reasons).update(
        resolved_at=now, resolved_by=SYSTEM, resolution="it moves again"
    )
    known = set(opened.values_list("partner_id", flat=True))
    for partner_id, why in reasons.items():
        if partner_id not in known:
            what = (partner_id, direction, IncidentKind.STUCK, "", why)
            hot.run((hot.OPEN_INCIDENT, (*what, now, now)))
