"""What a message is compared with when it arrives: its pair, its agreement, what came before."""

from datetime import timedelta

import pytest
from django.utils import timezone

from msh.models import History, InboundLink, InboundMessage, Signal
from partners.models import Agreement, Route

from .world import World, make_world

pytestmark = pytest.mark.django_db

OTHERS = {
    "tpa_id": "tpa-2",
    "our_party": "999",
    "their_party": "999",
    "our_party_context": "DUNS",
    "their_party_context": "DUNS",
}


def pending_for(world: World) -> list[tuple[str, str, int]]:
    """Kind, code, and how many: of the signals pending for the newest message."""
    newest = Signal.objects.filter(link__partner=world.here).order_by("-pk")[:1]
    return list(newest.values_list("kind", "code", "pending"))


def agreement_of(world: World) -> Agreement:
    return Agreement.objects.get(partner=world.here)


IN_USE = pytest.mark.parametrize("in_use", [False, True], ids=["first", "next"])


@IN_USE
@pytest.mark.parametrize("other", OTHERS)
def test_a_message_is_taken_under_an_agreement_that_says_the_same(in_use: bool, other: str) -> None:
    """D48, D63. Another pair has an agreement of these names."""
    make_world()
    world = make_world()
    if in_use:
        world.submit()
        world.settle()
    before = world.received()
    message, job = world.start()

    Agreement.objects.filter(partner=world.here).update(**{other: OTHERS[other]})
    world.hand_over(job)
    assert world.received() == before
    assert pending_for(world) == [("Error", "SecurityFailure", 1)]

    Agreement.objects.filter(partner=world.here).update(
        **{other: getattr(agreement_of(make_world()), other)}
    )
    world.hand_over(job)
    assert world.received() == [*before, message.message_id]
    assert InboundMessage.objects.get(message_id=message.message_id).agreement == agreement_of(
        world
    )


@pytest.mark.parametrize("context", ["our_party_context", "their_party_context"])
def test_a_party_without_context_is_compared_by_its_text(world: World, context: str) -> None:
    """D63."""
    setattr(world.agreement, context, "DUNS")
    world.agreement.save(update_fields=[context])
    message = world.submit()
    world.settle()
    assert world.received() == [message.message_id]


def test_a_copy_is_acknowledged_again_though_its_agreement_has_ended(world: World) -> None:
    """It was stored: to refuse it now would suspend a pair that has lost nothing."""
    _, job = world.start()
    world.hand_over(job)
    Agreement.objects.filter(partner=world.here).update(tpa_id="tpa-2")

    world.hand_over(job)

    assert pending_for(world) == [("Acknowledgement", "", 2)]


def test_a_message_for_a_party_without_a_route_is_delivered_here() -> None:
    world, other = make_world(), make_world()
    for party, context in (("999", ""), ("222", "DUNS")):
        Route.objects.create(
            to_party=party, to_party_context=context, partner=other.there, mode="hop"
        )
    world.submit()
    world.settle()
    assert InboundMessage.objects.get().state == "accepted"


def test_numbers_and_ids_are_those_of_the_pair() -> None:
    """Each of two pairs has a message 1 of the same MessageId, and a number of its own."""
    worlds = [make_world() for _ in range(3)]
    for count, world in enumerate(worlds, start=1):
        for number in range(count):
            world.submit(message_id=f"order-{number}")
        world.settle()
        assert world.received() == [f"order-{number}" for number in range(count)]
    used = InboundLink.objects.filter(last_number__isnull=False).order_by("pk")
    assert list(used.values_list("last_number", flat=True)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("terms", "seconds"),
    [
        ({"timeout": 600, "retries": 3, "retry_interval": 1200}, 600 + 3 * 1200),
        ({"timeout": 1, "retries": 0, "retry_interval": 1}, 60),
    ],
)
def test_an_ack_is_tried_as_long_as_a_copy_may_come(terms: dict[str, int], seconds: int) -> None:
    """And for a minute at least."""
    world = make_world(**terms)
    _, job = world.start()
    began = timezone.now()
    world.hand_over(job)
    left = Signal.objects.get().expires_at - began
    assert timedelta(seconds=seconds) <= left < timedelta(seconds=seconds + 60)


def test_each_copy_is_counted_on_its_own_message(world: World) -> None:
    jobs = []
    for _ in range(2):
        _, job = world.start()
        jobs.append(job)
        world.hand_over(job)
        world.end(job)
        world.settle()
    for _ in range(3):
        world.hand_over(jobs[0])
    counts = InboundMessage.objects.order_by("pk").values_list("duplicates", flat=True)
    assert list(counts) == [3, 0]
    assert History.objects.filter(event="DuplicateArrived").exists()
