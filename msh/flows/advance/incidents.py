"""Incidents that a person resolves."""

from django.db.models.functions import Now

from msh.models import History, Incident

from .lanes import Actor


def resolve_incident(incident: Incident, actor: Actor) -> bool:
    """Mark it resolved, with who and why. False, and nothing changed, if it was."""
    resolved = Incident.objects.filter(pk=incident.pk, resolved_at=None).update(
        resolved_at=Now(), resolved_by=actor.name, resolution=actor.reason
    )
    if resolved:
        History.objects.create(
            actor=actor.name,
            partner=incident.partner,
            direction=incident.direction,
            subject="link",
            event="IncidentResolved",
            detail=f"{incident.kind}; {actor.reason}",
        )
    return bool(resolved)
