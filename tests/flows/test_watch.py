"""Probes, late Acks, early warnings, and links that are stuck."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone
from pytest_django.fixtures import Settings

from msh.flows.delivery.pull import Outcome, settle, take
from msh.flows.operations import cancel, change_incident, change_link, watch
from msh.models import (
    ConsumerKind,
    Delivery,
    History,
    InboundMessage,
    Incident,
    OutboundLink,
    OutboundMessage,
    PartyEvent,
    Signal,
)
from msh.protocol.events import TransientErrorReceived
from msh.protocol.kinds import Verdict
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.history import Actor
from msh.store.operations.operator_actions import Switch
from msh.store.sending.links import OutboundLinks
from msh.transport.job import Job
from partners.models import Partner
from tests.delivery.desk import consumer, receive
from tests.sql import Calls, Execute, execute, wrap_execute

from . import byhand
from .world import LOST, World, make_world

pytestmark = pytest.mark.django_db

LONG_AGO = timedelta(days=2)
ANN = Actor("ann", "because")


def silent(**of_partner: object) -> tuple[World, OutboundMessage, Job]:
    """Its only copy was transmitted and never acknowledged: suspended."""
    world = make_world(retries=0)
    for name, value in of_partner.items():
        setattr(world.there, name, value)
    world.there.save(update_fields=list(of_partner))
    message = world.submit()
    (job,) = world.poll()
    world.end(job)
    let_pass(world)
    assert world.link.state == "suspended"
    return world, message, job


def let_pass(world: World) -> None:
    """The deadline of the message in flight is over."""
    OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now() - LONG_AGO)
    world.poll()


def let_age(world: World) -> None:
    """It was suspended long ago."""
    OutboundLink.objects.filter(pk=world.link.pk, state="suspended").update(
        suspended_since=timezone.now() - LONG_AGO
    )


def notified_of(message: OutboundMessage) -> list[str]:
    return list(
        PartyEvent.objects.filter(message=message).order_by("pk").values_list("kind", flat=True)
    )


def test_a_partner_is_probed_only_where_that_was_chosen_and_when_it_is_due() -> None:
    world, _, _ = silent()
    let_age(world)
    assert watch.probe() == 0
    patient, _, _ = silent(probe_interval=3600)
    assert watch.probe() == 0
    let_age(patient)
    assert watch.probe() == 1
    assert watch.probe() == 0
    assert (patient.link.state, world.link.state) == ("waiting", "suspended")


def test_probe_is_one_copy_and_notifies_nobody_again() -> None:
    world, message, first = silent(probe_interval=60)
    let_age(world)
    watch.probe()
    (copy,) = world.poll()
    assert copy.body == first.body
    world.end(copy, LOST)
    let_pass(world)

    assert (world.link.state, world.poll()) == ("suspended", [])
    assert notified_of(message) == ["suspended"]
    assert Incident.objects.get().count == 2


def test_a_probe_that_is_acknowledged_resumes() -> None:
    world, message, _ = silent(probe_interval=60)
    queued = world.submit()
    let_age(world)
    watch.probe()
    world.settle()

    assert world.received() == [message.message_id, queued.message_id]
    assert world.link.state == "idle"
    assert Incident.objects.get().resolved_by == "msh"


def test_a_probe_lets_no_best_effort_message_pass() -> None:
    """D15: each has one attempt, and the partner is silent."""
    world, _, first = silent(probe_interval=60)
    best = world.submit(semantics=DeliverySemantics.BEST_EFFORT)
    let_age(world)
    watch.probe()
    (copy,) = world.poll()
    assert copy.body == first.body
    best.refresh_from_db()
    assert best.state == "queued"

    world.hand_over(copy)
    world.end(copy)
    world.settle()
    best.refresh_from_db()
    assert best.state == "sent"


def test_an_operator_who_resets_the_retries_of_a_probe_has_resumed() -> None:
    world, message, _ = silent(probe_interval=60)
    let_age(world)
    watch.probe()
    change_link.reset_retries(world.there, ANN)
    world.settle()
    assert notified_of(message) == ["suspended", "acknowledged"]
    assert not Incident.objects.filter(resolved_at=None).exists()


def test_link_suspended_by_an_operator_is_not_probed() -> None:
    world = make_world()
    world.there.probe_interval = 1
    world.there.save(update_fields=["probe_interval"])
    world.submit()
    world.poll()
    change_link.suspend(world.there, ANN)
    let_age(world)
    assert watch.probe() == 0


@pytest.mark.requirement("000-030", "000-033")
@pytest.mark.parametrize(("chosen", "state"), [(False, "suspended"), (True, "waiting")])
def test_a_late_ack_resumes_by_itself_only_where_that_was_chosen(chosen: bool, state: str) -> None:
    """D12."""
    world, message, copy = silent(resume_on_late_ack=chosen)
    world.submit()
    world.hand_over(copy)
    (ack,) = world.poll()
    world.here.refresh_from_db()
    world.there.refresh_from_db()
    world.hand_over(ack)

    message.refresh_from_db()
    assert (message.state, world.link.state) == ("acknowledged", state)
    assert world.link.late_ack is not chosen
    assert Incident.objects.filter(resolved_at=None).exists() is not chosen


def test_the_sending_application_is_warned_while_retries_remain() -> None:
    world = make_world(retries=3)
    world.agreement.early_warning = 2
    world.agreement.save(update_fields=["early_warning"])
    message = world.submit()
    (job,) = world.poll()
    for retry in range(3):
        world.end(job)
        OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now() - LONG_AGO)
        (job,) = world.poll()
        assert notified_of(message) == (["delayed"] if retry else [])
    assert PartyEvent.objects.get().detail == "retry 2 of 3: no Acknowledgement yet"


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


def test_an_idle_link_with_an_old_queue_is_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    world = make_world()
    world.submit()
    OutboundMessage.objects.update(submitted_at=timezone.now() - LONG_AGO)
    assert watch.find_stuck() == 1
    assert "a queue, nothing in flight" in Incident.objects.get().detail


def test_a_link_to_a_partner_that_was_moved_is_not_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    world = make_world()
    world.submit()
    OutboundMessage.objects.update(submitted_at=timezone.now() - LONG_AGO)
    Partner.objects.filter(pk=world.there.pk).update(moved={"to": "b"})
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


def test_an_old_best_effort_queue_is_stuck_unless_its_oldest_is_under_way(
    settings: Settings,
) -> None:
    settings.MSH_STUCK_AFTER = 3600
    world = make_world()
    for _ in range(2):
        world.submit(semantics=DeliverySemantics.BEST_EFFORT)
    OutboundMessage.objects.update(submitted_at=timezone.now() - LONG_AGO)
    assert watch.find_stuck() == 1

    first = OutboundMessage.objects.order_by("pk")[0]
    OutboundMessage.objects.filter(pk=first.pk).update(state="in_flight", due=timezone.now())
    assert watch.find_stuck() == 0


def age_history(world: World) -> None:
    """What happened to its links, happened long ago. The history itself refuses to be changed."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE msh_history DISABLE TRIGGER USER")
        cursor.execute("UPDATE msh_history SET at = %s", [timezone.now() - LONG_AGO])
        cursor.execute("ALTER TABLE msh_history ENABLE TRIGGER USER")


# --- from partners ------------------------------------------------------------------------------


def arrived(*, long_ago: bool = True) -> tuple[World, InboundMessage]:
    """One message came and no consumer has it."""
    world = make_world()
    (message,) = receive(world)
    if long_ago:
        InboundMessage.objects.update(received_at=timezone.now() - LONG_AGO)
        age_history(world)
    return world, message


def stuck_detail(world: World) -> str:
    incident = Incident.objects.get(kind="stuck", resolved_at=None)
    assert (incident.partner, incident.direction) == (world.here, "in")
    return incident.detail


def test_stopped_pull_consumer_is_notified_once_and_resolved(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    orders = consumer(ConsumerKind.PULL)
    world, _ = arrived()

    assert [watch.find_stuck() for _ in range(2)] == [1, 1]

    assert stuck_detail(world).endswith("consumer orders has not received the first message yet")
    (taken,) = take(orders, 1)
    assert watch.find_stuck() == 0
    assert Incident.objects.get().resolution == "traffic resumed"
    settle(orders, taken.delivery, 1, Outcome.COMPLETED)
    assert watch.find_stuck() == 0


def test_a_consumer_that_works_on_an_old_backlog_is_not_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    orders = consumer(ConsumerKind.PULL)
    receive(make_world(), 2)
    InboundMessage.objects.update(received_at=timezone.now() - LONG_AGO)
    (taken,) = take(orders, 1)
    settle(orders, taken.delivery, 1, Outcome.COMPLETED)
    assert watch.find_stuck() == 0


def test_deliveries_that_are_held_and_forgotten_are_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    world, _ = arrived(long_ago=False)
    change_link.switch(world.here, Switch.DELIVERS, on=False, actor=ANN)
    InboundMessage.objects.update(received_at=timezone.now() - LONG_AGO)
    assert watch.find_stuck() == 0
    age_history(world)
    assert watch.find_stuck() == 1
    assert stuck_detail(world).endswith("deliveries are held by an operator")


def test_a_consumer_that_is_switched_off_is_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    consumer(ConsumerKind.PULL, enabled=False)
    world, _ = arrived()
    assert watch.find_stuck() == 1
    assert stuck_detail(world).endswith("consumer orders is switched off")


def test_a_blocked_delivery_has_its_own_incident(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    orders = consumer(ConsumerKind.PULL, attempts=1, on_failure="block")
    arrived()
    (taken,) = take(orders, 1)
    settle(orders, taken.delivery, 1, Outcome.FAILED, reason="disk full")
    Delivery.objects.update(started_at=timezone.now() - LONG_AGO)
    assert watch.find_stuck() == 0
    assert Incident.objects.get().kind == "delivery_failed"


def test_an_ack_that_cannot_be_delivered_is_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    world = make_world()
    world.submit()
    (job,) = world.poll()
    world.hand_over(job)
    pending = Signal.objects.filter(link__partner=world.here)
    pending.update(first_at=timezone.now() - LONG_AGO, tries=59, last_detail="503 closed")
    assert watch.find_stuck() == 0  # tried too seldom: an old Ack that is pending again
    pending.update(tries=60)

    assert watch.find_stuck() == 1

    assert "an Acknowledgement is pending since" in stuck_detail(world)
    assert stuck_detail(world).endswith("tried 60 times: 503 closed")
    pending.update(pending=0)
    assert watch.find_stuck() == 0


def refused(partner: Partner) -> list[tuple[str, str]]:
    """Kind of each incident of what comes from the partner, and who has resolved it."""
    found = Incident.objects.filter(partner=partner, direction="in").order_by("pk")
    return list(found.values_list("kind", "resolved_by"))


def let_be_quiet(world: World) -> None:
    """What it was refused for has not come again for a while."""
    of_partner = Incident.objects.filter(partner=world.here)
    of_partner.update(last_at=F("last_at") - 2 * watch.QUIET)


def test_no_room_incident_ends_when_a_later_message_is_accepted(
    settings: Settings,
) -> None:
    world = make_world()
    settings.MSH_STORE_LIMIT = 1
    world.submit()
    world.settle()
    watch.watch()
    assert refused(world.here) == [("store_short", "")]

    settings.MSH_STORE_LIMIT = 0
    change_link.resume(world.there, ANN)
    world.settle()
    watch.watch()
    assert refused(world.here) == [("store_short", "")], "what comes and goes is one incident"
    let_be_quiet(world)
    watch.watch()
    assert refused(world.here) == [("store_short", "msh")]

    settings.MSH_STORE_LIMIT = 1
    world.submit()
    world.settle()
    assert refused(world.here) == [("store_short", "msh"), ("store_short", "")]
    assert not Incident.objects.get(partner=world.here, resolved_at=None).announced


def test_gap_incident_ends_when_the_numbers_fit() -> None:
    world = make_world()
    change_link.start_link(world.there, "out", 41, ANN)
    message = world.submit()
    world.settle()
    let_be_quiet(world)
    watch.watch()
    assert refused(world.here) == [("sequence_gap", "")], "nothing was accepted since"

    cancel.cancel(message, Verdict.UNKNOWN, ANN)  # begins again with number 1
    change_link.resume(world.there, ANN)
    world.submit()
    world.settle()
    watch.watch()

    assert len(world.received()) == 1
    assert refused(world.here) == [("sequence_gap", "msh")]


# --- one that raises stops no other ---------------------------------------------------------------


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


def test_a_partner_whose_probe_fails_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds = [silent(probe_interval=60)[0] for _ in range(2)]
    for world in worlds:
        let_age(world)
    broken, other = worlds
    step = OutboundLinks.step

    def raising(lanes: OutboundLinks, partner_id: int, *given: Any) -> Any:
        if partner_id == broken.there.pk:
            raise RuntimeError("what nobody has thought of")
        return step(lanes, partner_id, *given)

    monkeypatch.setattr(OutboundLinks, "step", raising)
    assert watch.probe() == 1
    assert (broken.link.state, other.link.state) == ("suspended", "waiting")


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


def test_a_delivery_in_a_state_of_a_later_version_hides_no_other_stuck_one(
    settings: Settings,
) -> None:
    settings.MSH_STUCK_AFTER = 3600
    orders = consumer(ConsumerKind.PULL)
    arrived()
    take(orders, 1)
    Delivery.objects.update(
        state="later", started_at=timezone.now() - LONG_AGO, due=timezone.now() - LONG_AGO
    )
    other, _ = arrived()

    assert watch.find_stuck() == 2
    incident = Incident.objects.get(kind="stuck", partner=other.here)
    assert incident.detail.endswith("has not received the first message yet")
