"""Probes, late Acks and early warnings."""

from typing import Any

import pytest
from django.utils import timezone

from msh.flows.operations import change_link, watch
from msh.models import (
    Incident,
    OutboundLink,
    OutboundMessage,
    PartyEvent,
)
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.sending.links import OutboundLinks
from tests.flows.watch.watching import ANN, LONG_AGO, let_age, let_pass, silent
from tests.flows.world import LOST, World, make_world

pytestmark = pytest.mark.django_db


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


def test_link_suspended_by_an_operator_is_not_probed(world: World) -> None:
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
    message, job = world.start()
    for retry in range(3):
        world.end(job)
        OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now() - LONG_AGO)
        (job,) = world.poll()
        assert notified_of(message) == (["delayed"] if retry else [])
    assert PartyEvent.objects.get().detail == "retry 2 of 3: no Acknowledgement yet"


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
