"""Acknowledgments to one partner: copies that come while they wait, and how fast they leave."""

from typing import Any

import pytest
from django.db.models import F

from msh.flows.hints import EVERYTHING
from msh.flows.receiving import ebms2
from msh.flows.receiving.incoming import Incoming
from msh.flows.sending.sending_loop import SendingLoop
from msh.models import InboundMessage, Signal
from msh.protocol.vocabulary import DeliverySemantics
from msh.transport.carrier import Finished
from msh.transport.job import Job
from tests.peer.ebms2 import Envelope, Outgoing, message

from . import byhand
from .byhand import PLENTY, TRANSMITTED, Carrying, KeepingCarrier
from .flying import Sky

pytestmark = pytest.mark.django_db(transaction=True)


def arrive(sky: Sky, *several: Outgoing) -> None:
    for one in several:
        whole = sky.from_partner(one)
        ebms2.receive(sky.partner, Incoming(whole.content_type, whole.body))


def about(jobs: list[Job]) -> list[str]:
    """The MessageIds that these Acknowledgments name."""
    return [Envelope(job.body).ref_to_message_id for job in jobs]


def all_posts() -> list[Job]:
    """Each poll takes what has a slot, and all of it is transmitted before the next."""
    sent: list[Job] = []
    while jobs := byhand.poll():
        for job in jobs:
            byhand.end(job)
        sent += jobs
    return sent


@pytest.mark.requirement("EB-094", "EB-112")
def test_copy_keeps_the_place_of_the_answer_that_waits_and_adds_no_second_one(sky: Sky) -> None:
    burst = [message() for _ in range(10)]
    arrive(sky, *burst)

    arrive(sky, *burst[:5], *burst[:2])  # their sender has waited for RetryInterval

    ids = [one.message_id for one in burst]
    assert about(all_posts()) == ids
    assert sum(InboundMessage.objects.values_list("duplicates", flat=True)) == 7
    arrive(sky, burst[0])  # after its answer has left: it was lost
    assert about(all_posts()) == ids[:1]


@pytest.mark.requirement("EB-112")
def test_copy_keeps_the_place_of_a_refusal_that_waits(sky: Sky) -> None:
    burst = [message(time_to_live="2020-01-01T00:00:00Z") for _ in range(3)]
    arrive(sky, *burst)

    arrive(sky, *burst[:2])

    assert about(all_posts()) == [one.message_id for one in burst]


@pytest.mark.requirement("EB-094")
def test_copies_that_come_while_the_answer_is_under_way_get_one_more(sky: Sky) -> None:
    out = message()
    arrive(sky, out)
    (job,) = byhand.poll()

    arrive(sky, out, out, out)
    byhand.end(job)

    assert about(all_posts()) == [out.message_id]


@pytest.mark.requirement("EB-094")
def test_claim_that_has_lapsed_waits_again(sky: Sky) -> None:
    """It was named to a worker that had no slot for it."""
    out = message()
    arrive(sky, out)
    Signal.objects.update(sending=True, tries=1, due=F("due"))

    arrive(sky, out)

    assert Signal.objects.get().pending == 1


def left_for_want_of_slots(loop: SendingLoop, sky: Sky, *, is_full: bool) -> list[Job]:
    """What is sent if nothing but the end of a POST is a reason to poll."""
    carrier: Any = loop.carrier
    assert isinstance(carrier, KeepingCarrier)
    loop.round(EVERYTHING)
    sent, jobs = [], carrier.take()
    while jobs:
        if is_full:  # a sweep that comes while all of its slots are taken
            carrier.room = Carrying(busy=frozenset({sky.partner.pk}))
            loop.round(EVERYTHING)
            carrier.room = PLENTY
        reasons = [loop.take(Finished(job, TRANSMITTED)) for job in jobs]
        sent += jobs
        if any(reasons):
            loop.round(EVERYTHING)
        jobs = carrier.take()
    return sent


@pytest.mark.parametrize("is_full", [False, True])
def test_end_of_a_post_is_a_reason_to_poll_while_acknowledgments_wait(
    loop: SendingLoop, sky: Sky, is_full: bool
) -> None:
    burst = [message() for _ in range(13)]
    arrive(sky, *burst)

    sent = left_for_want_of_slots(loop, sky, is_full=is_full)

    assert about(sent) == [one.message_id for one in burst]


@pytest.mark.parametrize("is_full", [False, True])
def test_end_of_a_post_is_a_reason_to_poll_while_best_effort_messages_wait(
    loop: SendingLoop, sky: Sky, is_full: bool
) -> None:
    for _ in range(13):
        sky.submit(semantics=DeliverySemantics.BEST_EFFORT)

    assert len(left_for_want_of_slots(loop, sky, is_full=is_full)) == 13
