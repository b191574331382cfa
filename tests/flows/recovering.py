"""What tests of recoveries do and look at: an operator, numbers, events."""

from collections.abc import Callable, Sequence
from urllib.parse import parse_qs, urlsplit

import pytest

from msh.flows.operations import change_link
from msh.flows.receiving import link_status
from msh.models import OutboundMessage, PartyEvent
from msh.store.history import Actor
from msh.transport import enquiry
from msh.wire.link_status import write

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


def answering(
    world: World, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Let the partner answer enquiries; `meanwhile` happens when it has looked into its store."""

    def ask(urls: Sequence[str], *_: object) -> list[bytes]:
        questions = [parse_qs(urlsplit(url).query).get("message_id", []) for url in urls]
        answers = [write(link_status.status_for(world.here, asked)) for asked in questions]
        meanwhile()
        return answers

    monkeypatch.setattr(enquiry, "ask", ask)
