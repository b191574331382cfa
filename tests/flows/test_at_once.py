"""What is taken without a lock: only if nothing has changed since it was read."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F

from msh import wire
from msh.faults import CrashPoint
from msh.flows.receiving import incoming, receive
from msh.flows.receiving.incoming import Incoming
from msh.flows.sending.kinds import LaneCopy
from msh.flows.sending.submit import submit
from msh.flows.wake_up import WakeUp
from msh.models import (
    Attempt,
    Consumer,
    History,
    InboundLink,
    InboundMessage,
    OutboundLink,
    OutboundMessage,
    PartyEvent,
    Signal,
)
from msh.protocol.events import AckReceived
from msh.protocol.message import Payload
from msh.store.receiving import accept, fast_path, messages
from msh.store.receiving.accept import Accepted
from msh.store.receiving.fast_path import accept_at_once
from msh.store.receiving.senders import find_sender
from msh.store.sending.acked import AckedLink
from msh.transport.job import Job
from partners.models import Credential, OwnIdentity, Partner, digest_of
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
    partner = find_sender(f"Bearer {name}")
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
    _, job = world.start()
    return job


def counts() -> tuple[int, ...]:
    stored = (InboundMessage, Signal, History, PartyEvent, Attempt)
    return tuple(model.objects.count() for model in stored)


def test_the_next_message_is_taken_at_once(world: World) -> None:
    job = next_job(world)
    answer = receive.receive_fast_path(known(world.here.name), Incoming(job.content_type, job.body))
    assert answer == receive.Answer(204)
    assert len(world.received()) == 2
    assert Signal.objects.filter(pending=1).count() == 1


@pytest.mark.parametrize("take", [receive.receive_fast_path, receive.receive])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_payloads_are_stored_as_they_came(
    world: World, count: int, take: Callable[..., Any]
) -> None:
    sent = [
        Payload(bytes(range(256)) + bytes([n]), f"x/{n}", f"id,{n}", f"l,{n}", "ä")
        for n in range(count)
    ]
    submit(world.agreement, "Orders", "New", sent)
    (job,) = world.poll()
    assert take(known(world.here.name), Incoming(job.content_type, job.body))
    stored = InboundMessage.objects.latest("id").payloads.order_by("position")
    fields = ("content", "content_type", "content_id", "label", "description")
    assert [Payload(bytes(row[0]), *row[1:]) for row in stored.values_list(*fields)] == sent
    assert [row.position for row in stored] == list(range(1, count + 1))


@pytest.mark.parametrize(
    ("consumer", "kinds"),
    [
        (None, []),
        ({"kind": "pull"}, []),
        ({"kind": "http", "url": "http://app.example/", "enabled": False}, []),
        ({"kind": "http", "url": "http://app.example/"}, [WakeUp.DELIVER]),
        ({"kind": "in_process", "path": "os.getcwd"}, [WakeUp.DELIVER]),
    ],
)
def test_delivery_is_woken_if_a_consumer_does_not_ask_for_its_messages(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    consumer: dict[str, Any] | None,
    kinds: list[WakeUp],
) -> None:
    """A consumer that is added later is found by the next message, or by the sweep."""
    woken: list[WakeUp] = []
    monkeypatch.setattr(incoming, "wake_up", lambda *kinds, **names: woken.extend(kinds))
    job = next_job(world)
    if consumer is not None:
        Consumer.objects.create(name="app", **consumer)
    assert receive.receive_fast_path(known(world.here.name), Incoming(job.content_type, job.body))
    assert woken == kinds


def test_a_copy_is_not(world: World) -> None:
    job = next_job(world)
    assert receive.receive_fast_path(known(world.here.name), Incoming(job.content_type, job.body))
    partner = known(world.here.name)
    assert accept_at_once(partner, wire.parse(job.content_type, job.body)) is partner
    before = len(world.received())
    answer = receive.receive_fast_path(partner, Incoming(job.content_type, job.body))
    assert answer == receive.Answer(204)
    assert len(world.received()) == before
    assert InboundMessage.objects.latest("id").duplicates == 1


def test_nothing_is_taken_if_the_link_has_changed_since_it_was_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = next_job(world)
    partner = known(world.here.name)
    accept = fast_path._accept

    def change_first(*given: Any) -> Any:
        elsewhere(world.here.inbound_link.save)
        return accept(*given)

    monkeypatch.setattr(fast_path, "_accept", change_first)
    before = counts()
    assert accept_at_once(partner, wire.parse(job.content_type, job.body)) is partner
    assert counts() == before
    monkeypatch.undo()
    accepted = accept_at_once(partner, wire.parse(job.content_type, job.body))
    assert isinstance(accepted, Accepted)


def test_a_pair_that_was_written_together_with_another_is_written_alone(world: World) -> None:
    """Rows that one transaction wrote have the same xmin."""
    InboundLink.objects.create(partner=world.there)
    InboundLink.objects.update(epoch=F("epoch"))
    others = InboundLink.objects.exclude(partner=world.here)
    before = list(others.values())
    job = next_job(world)
    accepted = accept_at_once(known(world.here.name), wire.parse(job.content_type, job.body))
    assert isinstance(accepted, Accepted)
    assert list(others.values()) == before != []


@pytest.mark.parametrize("revoked", ["credential", "partner", "own identity"])
def test_message_of_a_changed_partner_is_not_accepted(world: World, revoked: str) -> None:
    job = next_job(world)
    partner = known(world.here.name)
    if revoked == "credential":
        Credential.objects.filter(partner=partner).delete()
    elif revoked == "own identity":
        OwnIdentity.objects.create(msh_uri="http://renamed.example/")
    else:
        Partner.objects.filter(pk=partner.pk).update(allowed_networks="192.0.2.0/24")
    assert receive.receive_fast_path(partner, Incoming(job.content_type, job.body)) is None
    assert len(world.received()) == 1


def test_message_with_a_removed_credential_is_not_accepted(
    world: World,
) -> None:
    """Both were added in one transaction, so that no version tells them apart."""
    job = next_job(world)
    with transaction.atomic():
        for token in ("one", "other"):
            world.here.credentials.create(sha256=digest_of(token))
    one, other = known("one"), known("other")
    Credential.objects.get(sha256=digest_of("one")).delete()
    assert receive.receive_fast_path(one, Incoming(job.content_type, job.body)) is None
    assert receive.receive_fast_path(other, Incoming(job.content_type, job.body))


def test_an_ack_changes_nothing_if_the_lane_has_changed_since_it_was_read(world: World) -> None:
    first = next_job(world)
    world.submit()
    assert isinstance(first.key, LaneCopy)
    message_id = first.key.message_id
    there = known(world.there.name)
    link = AckedLink.read(there, message_id)
    assert link.sent_state == "in_flight"
    link.links.step(there.pk, AckReceived(message_id))
    elsewhere(lambda: OutboundLink.objects.get(partner=there).save())
    before, row = counts(), world.link
    assert not link.write()
    assert counts() == before
    assert world.link.in_flight_id == row.in_flight_id
    assert states() == ["acknowledged", "in_flight", "queued"]

    link = AckedLink.read(there, message_id)
    link.links.step(there.pk, AckReceived(message_id))
    assert link.write()
    assert world.link.in_flight_id != row.in_flight_id
    assert states() == ["acknowledged", "acknowledged", "in_flight"]


def states() -> list[str]:
    return list(OutboundMessage.objects.order_by("pk").values_list("state", flat=True))


def test_ack_of_a_changed_partner_is_not_accepted(world: World) -> None:
    job = next_job(world)
    world.hand_over(job)
    (ack,) = world.poll()
    partner = known(world.there.name)
    Credential.objects.filter(partner=partner).delete()
    assert receive.receive_fast_path(partner, Incoming(ack.content_type, ack.body)) is None
    assert world.link.in_flight is not None


class DiedError(Exception):
    """The process ends here."""


@pytest.mark.requirement("000-003")
@pytest.mark.parametrize("take", [receive.receive_fast_path, receive.receive])
def test_the_ack_of_who_dies_after_the_commit_is_sent_by_another_worker(
    world: World, take: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partner never sends a copy: what is pending was committed with the message."""
    job = next_job(world)
    partner = known(world.here.name)

    def die(point: CrashPoint) -> None:
        if point is CrashPoint.RECEIVE_AFTER_COMMIT:
            raise DiedError

    for module in (messages, accept):
        monkeypatch.setattr(module, "reach", die)
    with pytest.raises(DiedError):
        take(partner, Incoming(job.content_type, job.body))
    monkeypatch.undo()

    assert len(world.received()) == 2
    assert len(transactions_of_last_message()) == 1
    (ack,) = world.poll()
    world.hand_over(ack)
    assert world.link.in_flight is None


def transactions_of_last_message() -> set[str]:
    """The transactions that wrote the newest message, its pair's number and the signal pending."""
    tables = ("msh_inboundmessage", "msh_signal", "msh_inboundpayload")
    newest = [f"(SELECT xmin::text FROM {table} ORDER BY id DESC LIMIT 1)" for table in tables]
    link = "(SELECT xmin::text FROM msh_inboundlink ORDER BY last_number DESC NULLS LAST LIMIT 1)"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join((*newest, link))}")
        return set(cursor.fetchone())
