"""Links to partners that are stuck: found once, called about, resolved."""

from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from msh.flows.operations import change_incident, change_link, watch
from msh.models import (
    History,
    Incident,
    OutboundMessage,
)
from msh.protocol.events import TransientErrorReceived
from msh.store.sending.links import OutboundLinks
from tests.flows import byhand
from tests.flows.watch.watching import ANN, LONG_AGO, age_history, let_pass, silent
from tests.flows.world import World, make_world
from tests.sql import Calls, Execute, execute, wrap_execute

pytestmark = pytest.mark.django_db


def test_stuck_link_is_notified_once_and_resolved(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    world, moving = make_world(), make_world()
    moving.submit()
    world.submit()
    (_, job) = world.poll()
    world.end(job)
    assert watch.find_stuck() == 0
    OutboundMessage.objects.filter(link=world.link).update(submitted_at=timezone.now() - LONG_AGO)

    assert [watch.find_stuck() for _ in range(3)] == [1, 1, 1]

    incident = Incident.objects.get()
    assert (incident.kind, incident.partner, incident.count) == ("stuck", world.there, 1)
    assert "number 1 is in flight after 1 attempts" in incident.detail
    world.settle()
    change_link.send_now(world.there, ANN)
    world.settle()
    assert watch.find_stuck() == 0
    assert Incident.objects.get().resolution == "traffic resumed"


def told_to_wait(world: World, message: OutboundMessage) -> None:
    """The partner answers the latest copy with a TransientError."""
    with transaction.atomic():
        lanes = OutboundLinks.lock([world.there.pk])
        lanes.step(world.there.pk, TransientErrorReceived(message.message_id, min_retry_secs=40))
        lanes.write()


def test_endless_transient_errors_make_a_link_stuck(settings: Settings) -> None:
    """Each wait begins and ends in the history of the link, and moves nothing."""
    settings.MSH_STUCK_AFTER = 3600
    world = make_world()
    message = world.submit()
    OutboundMessage.objects.update(submitted_at=timezone.now() - LONG_AGO)
    for _ in range(3):
        world.poll()
        told_to_wait(world, message)
        let_pass(world)
    told_to_wait(world, message)
    of_link = History.objects.filter(subject="link", direction="out")
    assert set(of_link.values_list("to_state", flat=True)) == {"transient", "waiting"}

    assert watch.find_stuck() == 1

    assert "number 1 is in flight after 4 attempts and 4 Transient" in Incident.objects.get().detail
    change_link.send_now(world.there, ANN)
    assert watch.find_stuck() == 0, "an operator's act starts the time again"


def test_wait_that_begins_long_after_an_action_is_not_stuck(
    settings: Settings,
) -> None:
    settings.MSH_STUCK_AFTER = 3600
    world = make_world()
    change_link.suspend(world.there, ANN)
    change_link.resume(world.there, ANN)
    age_history(world)
    message = world.submit()
    world.poll()
    told_to_wait(world, message)
    assert watch.find_stuck() == 0


def test_messages_that_waited_for_a_resume_are_not_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    world, _, _ = silent()
    OutboundMessage.objects.update(submitted_at=timezone.now() - LONG_AGO)
    assert watch.find_stuck() == 0
    change_link.resume(world.there, ANN)
    assert watch.find_stuck() == 0


def test_a_link_that_an_operator_suspended_and_forgot_is_stuck(settings: Settings) -> None:
    """The resolution of an operator, as every act on the link, starts the time again."""
    settings.MSH_STUCK_AFTER = 3600
    world = make_world()
    world.submit()
    world.poll()
    change_link.suspend(world.there, ANN)
    OutboundMessage.objects.update(submitted_at=timezone.now() - LONG_AGO)
    assert watch.find_stuck() == 0
    age_history(world)

    assert watch.find_stuck() == 1

    incident = Incident.objects.get()
    assert incident.detail.endswith("suspended by an operator")
    change_incident.resolve(incident, ANN)
    assert watch.find_stuck() == 0


def test_a_suspended_link_without_work_is_not_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    world = make_world()
    change_link.suspend(world.there, ANN)
    age_history(world)
    assert watch.find_stuck() == 0


def test_a_lane_that_cannot_be_read_hides_no_other_stuck_one(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 0
    broken, other = make_world(), make_world()
    for world in (broken, other):
        world.submit()
        for job in world.poll():
            world.end(job)
    execute(
        "UPDATE msh_outboundmessage SET terms = '{}' FROM msh_outboundlink link"
        " WHERE msh_outboundmessage.id = link.in_flight_id AND link.partner_id = %s",
        broken.there.pk,
    )

    watch.find_stuck()

    stuck = Incident.objects.filter(kind="stuck").values_list("partner", flat=True)
    assert set(stuck) == {broken.there.pk, other.there.pk}


def test_search_for_stuck_links_locks_no_lane(settings: Settings) -> None:
    """Else up to a thousand Acks wait for it, as long as it takes."""
    settings.MSH_STUCK_AFTER = 0
    make_world().submit()
    byhand.poll()
    statements: list[str] = []

    def watched(execute: Execute, calls: Calls) -> Any:
        statements.extend(call.statement.sql for call in calls)
        return execute(calls)

    with pytest.MonkeyPatch.context() as patch:
        wrap_execute(patch, watched)
        assert watch.find_stuck() == 1
    assert not [one for one in statements if "msh_outboundlink" in one and "FOR NO KEY" in one]
