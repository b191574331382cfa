"""A partner is moved from one MSH to another, with messages under way: none is lost or doubled.

`World.here` and `World.there` are each other's partner; one of them moves into the other database.
"""

import io
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from msh.endpoint import EndpointApplication
from msh.flows.errors import NotPossible
from msh.flows.operations import change_link, move_partner
from msh.flows.sending.submit import MessageIdReused, PartnerClosed
from msh.models import Consumer, InboundMessage, OutboundLink, OutboundMessage
from msh.store.operations import moving
from msh.store.operations.operator_actions import Switch
from msh.transport.job import Job
from partners.models import Agreement, Partner, digest_of
from tests.flows.byhand import PLENTY
from tests.flows.flying import Sky, make_sky, mirror_of
from tests.flows.recovering import ANN, numbers
from tests.flows.world import World, make_world
from tests.moving.conftest import There

pytestmark = pytest.mark.django_db(transaction=True)


def post(job: Job, sender: str) -> int:
    """The partner `sender` of the MSH that this process is of POSTs the bytes of a job: status."""
    said: list[str] = []
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/ebxml/",
        "CONTENT_TYPE": job.content_type,
        "CONTENT_LENGTH": str(len(job.body)),
        "HTTP_AUTHORIZATION": f"Bearer {sender}",
        "REMOTE_ADDR": "127.0.0.1",
        "SERVER_NAME": "msh",
        "SERVER_PORT": "80",
        "wsgi.input": io.BytesIO(job.body),
    }
    EndpointApplication(lambda *_: ())(environ, lambda status, *_: said.append(status))  # type: ignore[arg-type]
    return int(said[0].partition(" ")[0])


def suspend(*partners: Partner) -> None:
    for partner in partners:
        change_link.suspend(partner, ANN)


def moved(world: World, *, there: str = "there") -> World:
    """As it is in the database of this process."""
    partner = Partner.objects.get(name=getattr(world, there).name)
    other = world.here if there == "there" else world.there
    agreement = Agreement.objects.get(partner=partner)
    pair = (partner, other) if there == "there" else (other, partner)
    return World(*pair, agreement)


def states() -> list[tuple[str, int | None]]:
    """Of what was sent, in the order of the submits."""
    rows = OutboundMessage.objects.order_by("pk")
    return list(rows.values_list("state", "sequence_number"))


def test_sender_goes_on_elsewhere(world: World, file: Path, there: There) -> None:
    """The copy under way arrives after the export; its Acknowledgement is refused where it was."""
    ids = [world.submit().message_id for _ in range(2)]
    (copy,) = world.poll()
    suspend(world.there)
    world.end(copy)
    move_partner.export(world.there, file, "b", ANN)
    assert post(copy, world.here.name) == 204
    (ack,) = world.poll()
    assert [post(ack, world.there.name) for _ in range(2)] == [503, 503]
    world.end(ack)

    with there():
        move_partner.load(file, ANN)
        elsewhere = moved(world)
        assert states() == [("acknowledged", 1), ("in_flight", 2), ("queued", None)]
        change_link.resume(elsewhere.there, ANN)
        ids.append(elsewhere.submit().message_id)
        (again,) = elsewhere.poll()
        assert again.body == copy.body
        elsewhere.end(again)
    for _ in ids:
        assert post(again, world.here.name) == 204
        (ack,) = world.poll()
        with there():
            assert post(ack, world.there.name) == 204
            for again in elsewhere.poll():
                elsewhere.end(again)
        world.end(ack)
    with there():
        assert states() == [("acknowledged", number) for number in (1, 2, 3, 4)]
    assert world.received()[1:] == ids


def test_receiver_goes_on_elsewhere(world: World, file: Path, there: There) -> None:
    """What was accepted is known there: a copy is acknowledged, and not accepted again."""
    world.submit()
    (copy,) = world.poll()
    assert post(copy, world.here.name) == 204
    world.end(copy)
    suspend(world.here)
    said = io.StringIO()
    why = {"reason": "moves", "stdout": said}
    call_command("export-partner", world.here.name, str(file), to="b", **why)
    with there():
        call_command("import-partner", str(file), **why)
        assert "is served here. Resume it" in said.getvalue()
        assert InboundMessage.objects.filter(state="accepted").count() == 2
        assert post(copy, world.here.name) == 204
        assert InboundMessage.objects.count() == 2
        ((ack,), elsewhere) = world.poll(), moved(world, there="here")
        elsewhere.end(ack)
    assert post(ack, world.there.name) == 204
    world.submit()
    jobs = [job for job in world.poll() if job.partner_id == world.there.pk]
    # The first answer makes this process remember the partner as it is now.
    assert [post(jobs[0], world.here.name) for _ in range(3)] == [503, 503, 503]
    with there():
        assert post(jobs[0], world.here.name) == 204
        rows = InboundMessage.objects.order_by("pk").values_list("sequence_number", flat=True)
        assert list(rows) == [1, 2, 3]
    assert InboundMessage.objects.count() == 2


def test_what_was_submitted_is_known_elsewhere(world: World, file: Path, there: There) -> None:
    """An application without an answer repeats its request, and is led to the other MSH."""
    first = world.submit(message_id="order-1")
    suspend(world.there)
    move_partner.export(world.there, file, "b", ANN)
    with there():
        make_world()  # so that ids are others there
        move_partner.load(file, ANN)
        elsewhere = moved(world)
        assert elsewhere.agreement.pk != world.agreement.pk
        assert elsewhere.submit(message_id="order-1").message_id == first.message_id
        with pytest.raises(MessageIdReused):
            elsewhere.submit("<other/>", message_id="order-1")
        assert OutboundMessage.objects.count() == 2


def test_nothing_is_taken_that_was_decided_before_the_export(world: World, file: Path) -> None:
    """A request that found the partner before, and comes to the lock after."""
    world.submit()
    (copy,) = world.poll()
    suspend(world.here)
    move_partner.export(world.here, file, "b", ANN)
    with pytest.raises(Exception, match="moved to another MSH"):
        world.hand_over(copy)
    assert InboundMessage.objects.count() == 1


def test_who_was_exported_is_served_no_longer(world: World, file: Path) -> None:
    suspend(world.there)
    move_partner.export(world.there, file, "b", ANN)
    with pytest.raises(NotPossible, match="was moved to b"):
        change_link.resume(world.there, ANN)
    for which in Switch:
        with pytest.raises(NotPossible, match="was moved to b"):
            change_link.switch(world.there, which, on=True, actor=ANN)
    with pytest.raises(PartnerClosed):
        world.submit()
    first = file.read_bytes()
    move_partner.export(world.there, file, "b", ANN)
    assert len(file.read_bytes()) == len(first)
    with pytest.raises(NotPossible, match="already exported to b"):
        move_partner.export(world.there, file, "c", ANN)
    move_partner.reopen(world.there, ANN)
    with pytest.raises(NotPossible, match="is already served here"):
        move_partner.load(file, ANN)
    change_link.resume(world.there, ANN)
    world.submit()
    world.settle()
    assert numbers(world)[-1] == ("acknowledged", 2)


def test_export_wants_it_suspended_and_quiet(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move_partner, "PATIENCE", 0.2)
    with pytest.raises(NotPossible, match="Suspend"):
        move_partner.export(world.there, file, "b", ANN)
    world.submit()
    (copy,) = world.poll()
    suspend(world.there)
    with pytest.raises(NotPossible, match="a copy is being sent"):
        move_partner.export(world.there, file, "b", ANN)
    assert not file.exists()
    world.end(copy)
    with closing(connection.copy()) as other, other.cursor() as cursor:
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT count(*) FROM partners_partner")
        with pytest.raises(NotPossible, match="a transaction does not end"):
            move_partner.export(world.there, file, "b", ANN)
    assert not file.exists()
    move_partner.export(world.there, file, "b", ANN)


def test_import_happens_once_and_never_goes_back(
    world: World, tmp_path: Path, there: There
) -> None:
    """To the other MSH, and back with a message more; what is older is refused in both."""
    first, back = tmp_path / "first.zip", tmp_path / "back.zip"
    consumer = Consumer.objects.create(name="orders", kind="pull", partner=world.there)
    suspend(world.there)
    move_partner.export(world.there, first, "b", ANN)
    with there():
        assert not move_partner.load(first, ANN).again
        assert move_partner.load(first, ANN).again
        elsewhere = moved(world)
        change_link.resume(elsewhere.there, ANN)
        message = elsewhere.submit()
        (copy,) = elsewhere.poll()
    assert post(copy, world.here.name) == 204
    (ack,) = world.poll()
    with there():
        elsewhere.end(copy)
        assert post(ack, world.there.name) == 204
        suspend(elsewhere.there)
        move_partner.export(elsewhere.there, back, "a", ANN)
    with pytest.raises(NotPossible, match="older than those here"):
        _older(world, first)
    assert not move_partner.load(back, ANN).again
    consumer.refresh_from_db()
    assert consumer.partner == Partner.objects.get(name=world.there.name)
    assert states() == [("acknowledged", 1), ("acknowledged", 2)]
    assert OutboundMessage.objects.filter(message_id=message.message_id).exists()
    assert move_partner.load(first, ANN).again


def _older(world: World, file: Path) -> None:
    """The file is imported where the numbers have gone on since."""
    OutboundLink.objects.filter(partner=world.there).update(next_number=7)
    try:
        move_partner.load(file, ANN)
    finally:
        OutboundLink.objects.filter(partner=world.there).update(next_number=2)


def test_flights_go_on_elsewhere(file: Path, there: There) -> None:
    """ebMS 2.0, in the order of a conversation: one acknowledged, one under way, one waits."""
    sky = make_sky(ordered=True, window=1)
    sent = [sky.submit(conversation_id="talk") for _ in range(3)]
    (begun,) = sky.poll(PLENTY)
    sky.end(begun)
    sky.answer(sent[0])
    (copy,) = sky.poll(PLENTY)
    suspend(sky.partner)
    sky.end(copy)
    move_partner.export(sky.partner, file, "b", ANN)
    assert sky.poll(PLENTY) == []
    with there():
        move_partner.load(file, ANN)
        partner = Partner.objects.get(name=sky.partner.name)
        elsewhere = Sky(partner, partner.agreements.get())
        change_link.resume(partner, ANN)
        elsewhere.let_pass(61)
        (again,) = elsewhere.poll(PLENTY)
        assert again.body == copy.body
        elsewhere.end(again)
        elsewhere.answer(OutboundMessage.objects.get(message_id=sent[1].message_id))
        (last,) = elsewhere.poll(PLENTY)
        assert sent[2].message_id.encode() in last.body
        assert b"<eb:SequenceNumber" in last.body
        assert [state for state, _ in states()] == ["acknowledged", "acknowledged", "flying"]


def test_ebms2_receiver_goes_on_elsewhere(file: Path, there: There) -> None:
    sky = make_sky(window=2)
    mirror = mirror_of(sky)
    mirror.credentials.create(sha256=digest_of(mirror.name))
    one, other = [sky.submit() for _ in range(2)]
    first, second = sky.poll(PLENTY)
    assert post(first, mirror.name) == 204
    suspend(mirror)
    move_partner.export(mirror, file, "b", ANN)
    assert [post(second, mirror.name) for _ in range(2)] == [503, 503]
    with there():
        move_partner.load(file, ANN)
        assert [post(job, mirror.name) for job in (first, second)] == [204, 204]
        known = InboundMessage.objects.order_by("pk").values_list("message_id", flat=True)
        assert list(known) == [one.message_id, other.message_id]


def test_what_is_not_moved_is_known() -> None:
    """A new table that refers to a partner's rows is moved too, or docs/scale.md says that it is
    not."""
    assert {(model.__name__, column) for model, column, _ in moving.referring()} == {
        ("ActRequest", "partner_id"),
        ("BusinessKey", "inbound_id"),
        ("BusinessKey", "outbound_id"),
        ("Consumer", "partner_id"),
        ("KeyRule", "agreement_id"),
        ("MaintenanceWindow", "partner_id"),
        ("Route", "partner_id"),
        ("Statistics", "agreement_id"),
        ("Statistics", "partner_id"),
        ("Suspension", "partner_id"),
    }
