"""What is taken without a lock: only if nothing has changed since it was read."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from msh import wire
from msh.flows import advance, receive
from msh.flows.advance import Lanes, inbound
from msh.flows.transmit import Copy
from msh.models import Attempt, History, InboundMessage, OutboundLink, PartyEvent, Signal
from msh.protocol.events import AckReceived
from msh.transport.job import Job
from partners.models import Credential, Partner
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> World:
    """One message has gone through, so that the pair is in use."""
    world = make_world()
    world.submit()
    world.settle()
    return world


def known(name: str) -> Partner:
    partner = Partner.objects.by_credential(f"Bearer {name}")
    assert partner is not None
    return partner


def elsewhere(act: Callable[[], Any]) -> None:
    """Do it in a connection of its own, committed."""

    def run() -> None:
        act()
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def next_job(world: World) -> Job:
    world.submit()
    (job,) = world.look()
    return job


def counts() -> tuple[int, ...]:
    stored = (InboundMessage, Signal, History, PartyEvent, Attempt)
    return tuple(model.objects.count() for model in stored)


def test_the_next_message_is_taken_at_once(world: World) -> None:
    job = next_job(world)
    answer = receive.receive_usual(known(world.here.name), job.content_type, job.body)
    assert answer == receive.Answer(204)
    assert len(world.received()) == 2
    assert Signal.objects.filter(owed=1).count() == 1


def test_a_copy_is_not(world: World) -> None:
    job = next_job(world)
    assert receive.receive_usual(known(world.here.name), job.content_type, job.body)
    before = counts()
    assert receive.receive_usual(known(world.here.name), job.content_type, job.body) is None
    assert counts() == before


def test_nothing_is_taken_if_the_link_has_changed_since_it_was_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = next_job(world)
    partner = known(world.here.name)
    decide = inbound._decide

    def change_first(*given: Any) -> Any:
        elsewhere(world.here.inbound_link.save)
        return decide(*given)

    monkeypatch.setattr(inbound, "_decide", change_first)
    before = counts()
    assert not advance.accept_at_once(partner, wire.parse(job.content_type, job.body))
    assert counts() == before
    monkeypatch.undo()
    assert advance.accept_at_once(partner, wire.parse(job.content_type, job.body))


@pytest.mark.parametrize("revoked", ["credential", "partner"])
def test_nothing_is_taken_from_a_partner_that_has_changed_since_it_was_found(
    world: World, revoked: str
) -> None:
    job = next_job(world)
    partner = known(world.here.name)
    if revoked == "credential":
        Credential.objects.filter(partner=partner).delete()
    else:
        Partner.objects.filter(pk=partner.pk).update(allowed_networks="192.0.2.0/24")
    assert receive.receive_usual(partner, job.content_type, job.body) is None
    assert len(world.received()) == 1


def test_an_ack_changes_nothing_if_the_lane_has_changed_since_it_was_read(world: World) -> None:
    first = next_job(world)
    world.submit()
    assert isinstance(first.key, Copy)
    message_id = first.key.message_id
    there = known(world.there.name)
    lanes, state = Lanes.read_with_sent(there, message_id)
    assert state == "in_flight"
    lanes.step(there.pk, AckReceived(message_id))
    elsewhere(lambda: OutboundLink.objects.get(partner=there).save())
    before, link = counts(), world.link
    assert not lanes.write_if_unchanged(there.pk)
    assert counts() == before
    assert world.link.in_flight_id == link.in_flight_id

    lanes, _ = Lanes.read_with_sent(there, message_id)
    lanes.step(there.pk, AckReceived(message_id))
    assert lanes.write_if_unchanged(there.pk)
    assert world.link.in_flight_id != link.in_flight_id


def test_no_ack_is_taken_from_a_partner_that_has_changed_since_it_was_found(world: World) -> None:
    job = next_job(world)
    world.hand_over(job)
    (ack,) = world.look()
    partner = known(world.there.name)
    Credential.objects.filter(partner=partner).delete()
    assert receive.receive_usual(partner, ack.content_type, ack.body) is None
    assert world.link.in_flight is not None
