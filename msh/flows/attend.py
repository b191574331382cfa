"""Operators attend to incidents: who takes one, what was found out."""

from django.db import transaction

from msh.flows import advance
from msh.flows.advance import Actor
from msh.flows.operate import NotPossible
from msh.models import Incident


def assign(incident: Incident, to: str, actor: Actor) -> None:
    """Give it to the user of this name, or with "" back to all. The reason is kept as a note."""
    with transaction.atomic():
        if not advance.assign_incident(incident, to, actor):
            raise NotPossible("This incident is resolved: nobody has to attend to it.")
        advance.add_note(incident, Actor(actor.name, f"For {to or 'anybody'}: {actor.reason}"))


def note(incident: Incident, actor: Actor) -> None:
    """Keep the actor's reason with the incident, resolved or not."""
    advance.add_note(incident, actor)
