"""Operators attend to incidents: who takes one, what was found out."""

from django.db import transaction

from msh.flows.errors import NotPossible
from msh.models import Incident
from msh.store.history import Actor
from msh.store.incidents import add_note, assign_incident


def assign(incident: Incident, to: str, actor: Actor) -> None:
    """Give it to the user of this name, or with "" back to all. The reason is kept as a note."""
    with transaction.atomic():
        if not assign_incident(incident, to, actor):
            raise NotPossible("This incident is resolved: nobody has to attend to it.")
        add_note(incident, Actor(actor.name, f"For {to or 'anybody'}: {actor.reason}"))


def note(incident: Incident, actor: Actor) -> None:
    """Keep the actor's reason with the incident, resolved or not."""
    add_note(incident, actor)
