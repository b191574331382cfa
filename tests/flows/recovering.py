"""What tests of recoveries do and look at: an operator, numbers, events."""

from msh.flows.operations import change_link
from msh.models import OutboundMessage, PartyEvent
from msh.store.history import Actor

from .world import World

ANN = Actor("ann", "because")


def events(message: OutboundMessage) -> list[tuple[str, str]]:
    events = PartyEvent.objects.filter(message=message).order_by("pk")
    return list(events.values_list("kind", "detail"))


def numbers(world: World) -> list[tuple[str, int | None]]:
    """State and number of every message to the partner, in the order of their submits."""
    sent = OutboundMessage.objects.filter(link=world.link).order_by("pk")
    return list(sent.values_list("state", "sequence_number"))


def suspend(world: World) -> None:
    change_link.suspend(world.there, ANN)
