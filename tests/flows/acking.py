"""A link whose messages are acknowledged one after the other, and what is stored of it."""

import re
from typing import Any

from django.db import transaction

from msh.models import Attempt, History, OutboundMessage, PartyEvent
from msh.store.receiving.senders import find_sender
from partners.models import OwnIdentity, Partner
from tests.peer.drafts import Draft, acknowledgement

from . import byhand
from .world import World, make_world

QUEUED = 6


def waiting_world(texts: list[str] | None = None) -> World:
    """One message is in flight, others are queued behind it, all of one transaction."""
    world = make_world()
    own = {"msh_uri": "http://own.example/", "error_uri": ""}
    OwnIdentity.objects.update_or_create(defaults=own)
    with transaction.atomic():
        for text in texts or ["<order/>"] * QUEUED:
            world.submit(text)
    world.poll()
    return world


def remembering_world() -> World:
    """Two were acknowledged: the first read the link and what is queued."""
    world = waiting_world()
    acknowledge(world)
    acknowledge(world)
    return world


def ack_in(world: World) -> Draft:
    ours, theirs = world.there.our_uri, world.there.uri
    pair = {"sender_uri": theirs, "receiver_uri": ours, "error_uri": theirs, "tpa_id": "tpa-1"}
    flying = world.link.in_flight
    assert flying is not None
    return acknowledgement(flying.message_id, from_party=theirs, to_party=ours, **pair)


def acknowledge(world: World) -> None:
    assert byhand.hand_over(ack_in(world), world.there).status == 204  # type: ignore[arg-type]


def found(world: World) -> Partner:
    partner = find_sender(f"Bearer {world.there.name}")
    assert partner is not None
    return partner


def queue(world: World) -> list[OutboundMessage]:
    return list(OutboundMessage.objects.filter(link=world.link, state="queued").order_by("pk"))


_OF_ONE_RUN = re.compile(
    rb"w\d+\.example|[0-9a-f-]{32,}|\d{8}T\d{6}\.?\d*Z|[0-9A-Za-z_.+-]+@[^<>\s\"]+"
)


def summary(world: World) -> list[Any]:
    """What is stored of the link, without keys, times and what is by chance."""
    sent = OutboundMessage.objects.filter(link=world.link).order_by("pk")
    names = {message.message_id: f"message {n}" for n, message in enumerate(sent)}
    link = world.link
    return [
        (link.state, link.next_number, link.unsent, link.promised, link.attempt),
        [(m.state, m.sequence_number, m.epoch, m.outcome, m.terms and dict(m.terms)) for m in sent],
        [_OF_ONE_RUN.sub(b"", bytes(m.head)) if m.head else None for m in sent],
        list(Attempt.objects.filter(message__in=sent).order_by("pk").values_list("number")),
        [
            (names.get(row.message_id, ""), row.event, row.from_state, row.to_state, row.detail)
            for row in History.objects.filter(partner=world.there).order_by("pk")
        ],
        [
            (names[event.message.message_id], event.kind, event.detail)
            for event in PartyEvent.objects.filter(message__in=sent).order_by("pk")
        ],
    ]
