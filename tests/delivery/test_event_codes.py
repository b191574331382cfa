"""Why an event happened, as a code for programs."""

import pytest

from msh.flows.operations.cancel import cancel
from msh.models import OutboundMessage, PartyEvent
from msh.protocol.kinds import Verdict
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.history import Actor
from tests.admin.conftest import suspended_world
from tests.flows.world import LOST, make_world

pytestmark = pytest.mark.django_db


def events_of(message: OutboundMessage) -> list[tuple[str, str]]:
    found = PartyEvent.objects.filter(message=message).order_by("pk")
    return list(found.values_list("kind", "code"))


def test_acknowledged_needs_no_code() -> None:
    world = make_world()
    message = world.submit()
    world.settle()
    assert events_of(message) == [("acknowledged", "")]


def test_suspended_and_cancelled_have_the_kind_of_the_incident_and_the_verdict() -> None:
    suspended_world()
    message = OutboundMessage.objects.exclude(state="queued").get()
    assert events_of(message) == [("suspended", "refused_by_peer")]
    cancel(message, Verdict.RECEIVED, Actor("ann", "they have it"))
    assert events_of(message)[1:] == [("cancelled", "received")]


def test_message_that_is_queued_is_cancelled_with_its_verdict() -> None:
    world = make_world()
    message = world.submit()
    cancel(message, None, Actor("ann", "wrong prices"))
    assert events_of(message) == [("cancelled", "not_received")]


def test_best_effort_message_that_failed_says_why_its_attempt_did() -> None:
    world = make_world()
    message = world.submit(semantics=DeliverySemantics.BEST_EFFORT)
    (job,) = world.poll()
    world.end(job, LOST)
    assert events_of(message) == [("failed", LOST.reason)]
