"""What we cannot take now: a TransientError, and nothing stored (000 §4.2)."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import pytest
from django.db import InternalError, connection
from pytest_django.fixtures import Settings

from msh import wire
from msh.flows.operations import change_link
from msh.flows.receiving import overload, receive
from msh.flows.receiving.incoming import Incoming
from msh.models import InboundMessage, Incident, Signal
from msh.store import capacity
from msh.store.history import Actor
from msh.store.receiving.senders import find_sender
from msh.transport.carrier import Carrier
from msh.transport.job import Job
from partners.models import Partner
from tests.peer import Peer

from .costs import multiply, statements_of
from .world import World, make_world

pytestmark = pytest.mark.django_db

ALL = 1 << 60  # bytes: more than any disk has


def limit(world: World, **limits: int) -> None:
    for name, value in limits.items():
        setattr(world.here, name, value)
    world.here.save(update_fields=list(limits))


def copy_of_next(world: World) -> Job:
    """The first copy of a new message."""
    world.submit()
    return next(job for job in world.poll() if b'"Normal"' in job.body)


def pending() -> list[tuple[str, str, int | None]]:
    """Kind, code and MinRetrySecs of the signals that are pending."""
    rows = Signal.objects.filter(pending__gt=0).order_by("pk")
    return list(rows.values_list("kind", "code", "min_retry_secs"))


def open_incidents() -> list[str]:
    return list(Incident.objects.filter(resolved_at=None).values_list("kind", flat=True))


@pytest.mark.requirement("000-003", "000-081", "000-083")
@pytest.mark.parametrize("watched", ["disk", "database"])
def test_without_space_new_messages_get_transient_error(
    world: World, settings: Settings, watched: str
) -> None:
    job = copy_of_next(world)
    disk: dict[str, Any] = {"MSH_DISK_PATH": "/", "MSH_DISK_WATERMARK": ALL}
    full = disk if watched == "disk" else {"MSH_STORE_LIMIT": 1}
    for name, value in full.items():
        setattr(settings, name, value)

    answer = world.hand_over(job)
    world.end(job)

    assert answer.status == 204
    assert "nearly full" in answer.reason or "store is full" in answer.reason
    assert world.received() == []
    assert pending() == [("Error", "TransientError", 60)]
    assert open_incidents() == ["store_short"]
    world.settle()
    assert (world.link.state, world.link.retries_spent, world.link.transients) == (
        "transient",
        0,
        1,
    )

    for name in full:
        setattr(settings, name, "" if name == "MSH_DISK_PATH" else 0)
    change_link.resume(world.there, Actor("ann", "there is room again"))
    world.settle()
    assert len(world.received()) == 1


@pytest.mark.requirement("000-013")
def test_a_known_message_is_acknowledged_again_without_room(
    world: World, settings: Settings
) -> None:
    job = copy_of_next(world)
    world.hand_over(job)
    settings.MSH_DISK_PATH, settings.MSH_DISK_WATERMARK = "/", ALL
    world.hand_over(job)
    assert pending() == [("Acknowledgement", "", None)]
    assert Signal.objects.get().pending == 2


@pytest.mark.parametrize(
    "limits", [{"undelivered_limit": 2}, {"undelivered_bytes_limit": 2 * len("<order/>")}]
)
def test_a_consumer_that_does_not_keep_up_blocks_its_partner_only(limits: dict[str, int]) -> None:
    world, other = make_world(), make_world()
    limit(world, **limits)
    for _ in range(3):
        world.submit()
    world.settle()
    other.submit()
    other.settle()

    assert len(world.received()) == 2
    assert len(other.received()) == 1
    assert world.link.state == "transient"
    assert open_incidents() == ["backlog"]

    InboundMessage.objects.filter(link__partner=world.here).update(state="delivered")
    change_link.resume(world.there, Actor("ann", "it keeps up again"))
    world.settle()
    assert len(world.received()) == 3


@pytest.mark.parametrize(
    "limits", [{"undelivered_limit": 90_000}, {"undelivered_bytes_limit": 1 << 30}]
)
def test_a_backlog_is_not_counted_for_each_message(
    limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would cost as much as waits, for each: a consumer that is down would take a core."""
    monkeypatch.setattr(capacity, "COUNTED_EVERY", 1000)
    world = make_world()
    world.submit()
    world.settle()
    multiply(
        InboundMessage.objects.get(link__partner=world.here),
        300,
        message_id="'copy-' || n",
        sequence_number="NULL",
        epoch="NULL",
    )
    limit(world, **limits)

    def accept_ten() -> None:
        for _ in range(10):
            world.submit()
        world.settle()

    counts = [
        call for call in statements_of(accept_ten) if "COALESCE(sum(part" in call.statement.sql
    ]

    assert len(world.received()) == 311
    assert len(counts) == 1


def test_what_waits_is_counted_before_a_message_is_refused(world: World) -> None:
    """What was delivered meanwhile is not remembered."""
    limit(world, undelivered_limit=2)
    for _ in range(4):
        world.submit()
        world.settle()
        InboundMessage.objects.filter(link__partner=world.here).update(state="delivered")
    assert len(world.received()) == 4


def test_rate_limited_partner_waits_for_the_next_minute(world: World) -> None:
    limit(world, rate_limit=2)
    for _ in range(3):
        world.submit()
    world.settle()

    assert len(world.received()) == 2
    (row,) = Signal.objects.filter(kind="Error")
    assert row.min_retry_secs is not None
    assert 1 <= row.min_retry_secs <= 60
    assert open_incidents() == []

    InboundMessage.objects.update(received_at=row.first_at.replace(year=2020))
    change_link.resume(world.there, Actor("ann", "a minute later"))
    world.settle()
    assert len(world.received()) == 3


def test_unmeasurable_disk_blocks_nothing(settings: Settings) -> None:
    """A start-up check has told of it."""
    settings.MSH_DISK_PATH = "/no/such/folder"
    world = make_world()
    world.submit()
    world.settle()
    assert len(world.received()) == 1


@contextmanager
def read_only() -> Iterator[None]:
    """The store takes nothing, as after a failover to a standby."""
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = off")


@pytest.mark.requirement("000-003", "001-14")
@pytest.mark.django_db(transaction=True)
def test_read_only_database_answers_503_and_transient_error() -> None:
    """No Ack, nothing stored; the TransientError is a POST of its own nevertheless."""
    with Peer() as peer:
        world = make_world()
        job = copy_of_next(world)
        Partner.objects.filter(pk=world.here.pk).update(address=peer.address)
        world.here.refresh_from_db()
        known = find_sender(f"Bearer {world.here.name}")
        assert known is not None
        with read_only():
            assert receive.receive_fast_path(known, Incoming(job.content_type, job.body)) is None
            with pytest.raises(InternalError) as refused:
                receive.receive(world.here, Incoming(job.content_type, job.body))
        assert capacity.is_unwritable(refused.value)
        came = peer.received.wait_for(list, 30, "a TransientError")
        assert [one.message.error_code for one in came] == ["TransientError"]
        assert came[0].message.text("ErrorHeader/Error/MinRetrySecs") == "60"
        assert world.received() == []
        assert pending() == []

        receive.receive(world.here, Incoming(job.content_type, job.body))
        assert len(world.received()) == 1


@pytest.mark.requirement("000-003", "001-14")
def test_transient_error_from_memory_reaches_a_mail_partner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From our own address, and in lines: else its mail server and its MSH refuse it."""
    transmitted: list[Job] = []

    class Kept(Carrier):
        def submit(self, jobs: Iterable[Job]) -> None:
            transmitted.extend(jobs)

    kept = Kept(SimpleQueue())
    monkeypatch.setattr(overload, "_carrier", lambda: kept)
    world = make_world()
    world.here.our_uri, world.here.address = "mailto:us@ours.example", "mailto:them@theirs.example"
    world.here.save()
    next_one = copy_of_next(world)
    header = wire.parse(next_one.content_type, next_one.body).header

    assert overload.send_transient_error(world.here, header)

    (job,) = transmitted
    assert job.sender == "mailto:us@ours.example"
    assert job.url == "mailto:them@theirs.example"
    assert b"Content-Transfer-Encoding: base64" in job.body
    answer = wire.parse(job.content_type, job.body).header
    assert answer.error is not None
    assert (answer.error.code, answer.ref_to_message_id) == ("TransientError", header.message_id)
