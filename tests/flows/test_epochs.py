"""Numbers and MessageIds that occur twice: before and after a reset, or at two partners."""

import pytest

from msh.flows.operations import resynchronise
from msh.models import History, InboundLink, InboundMessage, Signal
from msh.protocol.events import Numbered
from msh.protocol.link_status import LinkStatus
from msh.protocol.resynchronisation import Repair
from msh.transport.job import Job
from tests.flows import byhand

from .recovering import ANN, numbers, suspend
from .world import World, make_world

pytestmark = pytest.mark.django_db


def send(world: World) -> Job:
    """A message, its copy transmitted and acknowledged."""
    _, job = world.start()
    world.hand_over(job)
    world.end(job)
    world.settle()
    return job


@pytest.mark.requirement("000-012", "000-013", "000-106")
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_copy_from_before_a_reset_is_acknowledged_again(world: World, number: int) -> None:
    """Its number may be the last, the next, or one far ahead: the MessageId is known (D1)."""
    jobs = [send(world) for _ in range(4)]
    resynchronise.reset_sequence(world.there, ANN)
    send(world)
    before = world.received()

    answer = world.hand_over(jobs[number - 1])

    assert (answer.status, answer.reason) == (204, "")
    assert world.received() == before
    assert InboundLink.objects.get(partner=world.here).last_number == 1
    (ack,) = byhand.poll()
    assert Signal.objects.get(pk=ack.key.key).ref_to_message_id == before[number - 1]  # type: ignore[attr-defined]
    assert InboundMessage.objects.get(message_id=before[number - 1]).duplicates == 1


@pytest.mark.requirement("000-027", "000-043")
def test_a_rewind_after_a_reset_sends_nothing_of_the_epoch_before(world: World) -> None:
    for _ in range(3):
        send(world)
    resynchronise.reset_sequence(world.there, ANN)
    for _ in range(2):
        send(world)
    *kept, lost = world.received()
    InboundMessage.objects.get(message_id=lost).delete()
    InboundLink.objects.filter(partner=world.here).update(last_number=1, last_message_id=kept[-1])
    suspend(world)

    compared = resynchronise.apply(world.there, LinkStatus(1, kept[-1]), ANN)

    assert compared.plan.repair is Repair.REWIND
    again = History.objects.filter(event="SequenceRewound", subject="message")
    assert list(again.values_list("message_id", flat=True)) == [lost]
    world.settle()
    assert world.received() == [*kept, lost]
    assert numbers(world) == [("acknowledged", number) for number in (1, 2, 3, 1, 2)]


def test_last_message_id_is_looked_up_within_the_partner() -> None:
    """Two partners were sent the same MessageId, under different numbers."""
    worlds = make_world(), make_world()
    for world, ids in zip(worlds, (["a", "b", "order-1"], ["a", "order-1"]), strict=True):
        for message_id in ids:
            world.submit(message_id=message_id)
        world.settle()

    for world, number in zip(worlds, (3, 2), strict=True):
        compared = resynchronise.compare(world.there, LinkStatus(number, "order-1"))
        assert compared.ours.anchor == Numbered(number, 1)
        assert compared.plan.repair is Repair.NOTHING


@pytest.mark.requirement("000-027", "000-043")
def test_a_rewind_over_a_reset_keeps_the_order(world: World) -> None:
    """The numbers began again at 1, so the order is that of epoch and number."""
    for _ in range(3):
        send(world)
    resynchronise.reset_sequence(world.there, ANN)
    for _ in range(2):
        send(world)
    ids = world.received()
    InboundMessage.objects.filter(message_id__in=ids[1:]).delete()
    InboundLink.objects.filter(partner=world.here).update(
        last_number=1, epoch=1, last_message_id=ids[0]
    )
    suspend(world)

    resynchronise.apply(world.there, LinkStatus(1, ids[0]), ANN)
    sent: list[str] = []
    while jobs := byhand.poll():
        for job in jobs:
            world.hand_over(job)
            world.end(job)
            sent += [job.key.message_id] if job.partner_id == world.there.pk else []  # type: ignore[attr-defined]

    assert sent == ids[1:]
    assert world.received() == ids


def test_a_rewind_is_of_one_partner_only() -> None:
    rewound, other = make_world(), make_world()
    for world in (rewound, other):
        for _ in range(3):
            send(world)
    ids = rewound.received()
    InboundMessage.objects.filter(message_id__in=ids[1:]).delete()
    InboundLink.objects.filter(partner=rewound.here).update(last_number=1, last_message_id=ids[0])
    suspend(rewound)

    resynchronise.apply(rewound.there, LinkStatus(1, ids[0]), ANN)
    new = other.submit()

    sent = {job.partner_id: job.key.message_id for job in byhand.poll()}  # type: ignore[attr-defined]
    assert sent == {rewound.there.pk: ids[1], other.there.pk: new.message_id}
    assert numbers(other) == [*[("acknowledged", number) for number in (1, 2, 3)], ("in_flight", 4)]
