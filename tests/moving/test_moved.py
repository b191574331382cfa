"""What the MSH that a partner was moved from does no longer, and what it left."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.db import connection, transaction

from msh.flows.delivery import feed
from msh.flows.errors import NotPossible
from msh.flows.operations import cancel, change_flight, change_link, move_partner
from msh.flows.receiving import ebms2
from msh.models import (
    Consumer,
    Delivery,
    InboundLink,
    InboundMessage,
    OutboundLink,
    Signal,
    Statistics,
)
from msh.protocol.errors import MovedAway
from msh.protocol.kinds import Verdict
from msh.store.flights.flights import Flights
from partners.models import Partner
from tests.flows import byhand
from tests.flows.byhand import PLENTY
from tests.flows.flying import Sky, make_sky, mirror_of
from tests.flows.recovering import ANN
from tests.flows.world import World, make_world
from tests.moving.conftest import There
from tests.sessions import in_another_session
from tests.statistics.happenings import collect_all

pytestmark = pytest.mark.django_db(transaction=True)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def test_what_flies_does_not_end_where_it_was(file: Path) -> None:
    """Nor is it sent: neither when its retries are used up, nor when its life is over."""
    sky = make_sky(retries=0, persist_duration=600)
    message = sky.submit()
    (copy,) = sky.poll(PLENTY)
    change_link.suspend(sky.partner, ANN)
    sky.end(copy)
    move_partner.export(sky.partner, file, "b", ANN)
    sky.let_pass(700)
    assert sky.poll(PLENTY) == []
    assert (sky.flight(message) is not None, sky.events(message)) == (True, [])
    move_partner.reopen(sky.partner, ANN)
    sky.poll(PLENTY)
    assert len(sky.events(message)) == 1


def test_no_answer_to_a_flight_is_taken_that_was_decided_before_the_export(file: Path) -> None:
    """A request that found the partner before, and comes to the lock after."""
    sky = make_sky()
    mirror = mirror_of(sky)
    message = sky.submit()
    (copy,) = sky.poll(PLENTY)
    ebms2.receive(mirror, copy.content_type, copy.body)
    (ack,) = byhand.poll()
    sky.end(copy)
    before = Partner.objects.get(pk=sky.partner.pk)
    change_link.suspend(sky.partner, ANN)
    move_partner.export(sky.partner, file, "b", ANN)

    with pytest.raises(MovedAway):
        ebms2.receive(before, ack.content_type, ack.body)

    assert sky.state(message) == "waiting"


@pytest.mark.parametrize("holds_snapshot", [True, False])
def test_export_waits_for_who_holds_a_flight(
    holds_snapshot: bool, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that found the partner here, and has still to write. The snapshot of its last
    statement lasts until the next, unless that is one without parameters."""
    sky = make_sky()
    message = sky.submit()
    change_link.suspend(sky.partner, ANN)

    def export() -> None:
        move_partner.export(sky.partner, file, "b", ANN)

    with transaction.atomic():
        Flights.lock_one(sky.partner.pk, message.message_id)
        if not holds_snapshot:
            connection.cursor().execute("SELECT 1")
        with monkeypatch.context() as patch:
            patch.setattr(move_partner, "PATIENCE", 0.3)
            with pytest.raises(NotPossible, match="a transaction does not end"):
                in_another_session(export)
    export()


def test_silent_partner_is_probed_by_nobody(file: Path, there: There) -> None:
    """Not where it was; and where it is, not before an operator resumes it."""
    sky = make_sky(probe_interval=60)
    sky.submit()
    silent = {"state": "suspended", "suspended_for": "unreachable", "probe_due": LONG_AGO}
    OutboundLink.objects.filter(partner=sky.partner).update(suspended_since=LONG_AGO, **silent)
    move_partner.export(sky.partner, file, "b", ANN)
    assert sky.poll(PLENTY) == []
    with there():
        move_partner.load(file, ANN)
        partner = Partner.objects.get(name=sky.partner.name)
        elsewhere = Sky(partner, partner.agreements.get())
        assert elsewhere.poll(PLENTY) == []
        assert elsewhere.link.suspended_for == "operator"
        change_link.resume(partner, ANN)
        assert len(elsewhere.poll(PLENTY)) == 1


@pytest.mark.parametrize("flies", [False, True])
def test_nothing_is_cancelled_where_it_was(flies: bool, file: Path) -> None:
    sky = make_sky() if flies else None
    world = None if sky else make_world()
    message = sky.submit() if sky else world.submit()  # type: ignore[union-attr]
    partner = message.link.partner
    change_link.suspend(partner, ANN)
    move_partner.export(partner, file, "b", ANN)
    for verdict in (None, Verdict.NOT_RECEIVED):
        with pytest.raises(NotPossible, match="was moved to b"):
            cancel.cancel(message, verdict, ANN)
    if flies:
        with pytest.raises(NotPossible, match="was moved to b"):
            change_flight.hold(message, ANN)


def test_export_lists_this_partner_only(world: World, file: Path) -> None:
    other = make_world()
    other.submit()
    other.settle()
    change_link.suspend(world.here, ANN)
    move_partner.export(world.here, file, "b", ANN)
    listed = InboundMessage.objects.exclude(feed_position=None)
    assert set(listed.values_list("link__partner", flat=True)) == {world.here.pk}


def test_export_does_not_list_under_its_lock(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move_partner, "_list_in_feed", lambda _: None)
    change_link.suspend(world.here, ANN)
    with pytest.raises(NotPossible, match="in the meantime: export again"):
        move_partner.export(world.here, file, "b", ANN)
    assert not file.exists()


def test_what_was_read_there_is_not_in_the_feed_here(
    world: World, file: Path, there: There
) -> None:
    """Whatever places were given here: they are the microseconds of another clock."""
    change_link.suspend(world.here, ANN)
    move_partner.export(world.here, file, "b", ANN)
    position = InboundMessage.objects.get().feed_position
    with there():
        other = make_world()
        other.submit()
        other.settle()
        InboundMessage.objects.update(feed_position=position)
        move_partner.load(file, ANN)
        (read,) = feed.page(0, 10)
        assert read.link.partner == other.here
        assert InboundMessage.objects.filter(feed_position=None).count() == 0


def test_acknowledgements_stay_with_their_messages(world: World, file: Path, there: There) -> None:
    """Also that of a message that was pruned: it is of no other one."""
    world.submit()
    world.settle()
    pruned, kept = InboundMessage.objects.order_by("pk")
    change_link.suspend(world.here, ANN)
    pruned.delete()
    move_partner.export(world.here, file, "b", ANN)
    with there():
        other = make_world()
        for _ in range(3):
            other.submit()
            other.settle()
        move_partner.load(file, ANN)
        of_moved = Signal.objects.filter(link__partner__name=world.here.name)
        (one,) = InboundMessage.objects.filter(link__partner__name=world.here.name)
        assert [each.ref_to_message_id for each in of_moved.about(one)] == [kept.message_id]
        without = of_moved.exclude(inbound_id__in=InboundMessage.objects.values("pk"))
        assert [each.ref_to_message_id for each in without] == [pruned.message_id]


def test_replays_stay_in_the_order_of_their_pair(world: World, file: Path, there: There) -> None:
    consumer = Consumer.objects.create(name="orders", kind="pull")
    message = InboundMessage.objects.get()
    of_message = {"consumer": consumer, "message": message, "attempt": 1, "started_at": LONG_AGO}
    first = Delivery.objects.create(state="completed", **of_message)
    order = {"replay_of": first, "replay_order": message.link_id}
    Delivery.objects.create(state="failed", due=LONG_AGO, **order, **of_message)
    change_link.suspend(world.here, ANN)
    move_partner.export(world.here, file, "b", ANN)
    with there():
        InboundLink.objects.create(partner=make_world().there)
        Consumer.objects.create(name="orders", kind="pull")
        move_partner.load(file, ANN)
        replay = Delivery.objects.exclude(replay_of=None).get()
        assert replay.message.link_id != message.link_id
        assert replay.replay_order == replay.message.link_id


def test_statistics_count_once_what_comes_back(world: World, tmp_path: Path, there: There) -> None:
    first, back = tmp_path / "first.zip", tmp_path / "back.zip"
    change_link.suspend(world.there, ANN)
    collect_all()
    assert submitted() == [1, 1]
    move_partner.export(world.there, first, "b", ANN)
    with there():
        move_partner.load(first, ANN)
        move_partner.export(Partner.objects.get(name=world.there.name), back, "a", ANN)
    move_partner.load(back, ANN)
    collect_all()
    assert submitted() == [1, 1]


def submitted() -> list[int]:
    """Of the partners, and of the whole MSH."""
    days = Statistics.objects.filter(unit="day")
    return [
        sum(days.filter(partner__isnull=whole).values_list("submitted", flat=True))
        for whole in (False, True)
    ]
