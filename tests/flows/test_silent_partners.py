"""Partners behind a firewall that drops packets: whoever answers does not wait for them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from django.db import connection
from django.db.models import QuerySet

from msh.flows import worker_loop
from msh.flows.sending import best_effort
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import Attempt
from msh.transport import carrier
from msh.transport.carrier import Carrier
from partners.models import Partner
from tests.peer import Peer
from tests.silent import dropping
from tests.waiting import wait_until

from . import byhand
from .world import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = 16
SILENT = 40


@pytest.fixture(autouse=True)
def _few_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each POST that gets no connection would hold its place for longer than this test waits."""
    monkeypatch.setattr(worker_loop, "Carrier", partial(Carrier, at_once=AT_ONCE))
    monkeypatch.setattr(best_effort, "GRACE", 300.0)
    monkeypatch.setattr(carrier, "SLOW_AFTER", 0.3, raising=False)


@contextmanager
def running(worker: SendingLoop) -> Iterator[None]:
    thread = started(worker)
    try:
        yield
    finally:
        worker.stop()
        worker.carrier.close()
        thread.join()


def started(worker: SendingLoop) -> threading.Thread:
    def run() -> None:
        try:
            worker.run()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def get_to_know(worker: SendingLoop, world: World) -> None:
    """The partner answers one message of the worker."""
    message = world.submit(semantics="BestEffort")
    byhand.run_until_quiet(worker)
    assert Attempt.objects.get(message=message).status == 204


def put_in_flight(*worlds: World) -> None:
    """A message to each, numbered and due in this order; no copy of it had a place."""
    everybody = frozenset(Partner.objects.values_list("pk", flat=True))
    for world in worlds:
        world.submit()
        assert byhand.poll(byhand.Carrying(busy=everybody)) == []
        assert world.link.unsent


@pytest.fixture
def honest() -> Iterator[tuple[World, Peer]]:
    world = make_world(timeout=600)
    with Peer() as peer:
        Partner.objects.filter(pk=world.there.pk).update(address=peer.address)
        yield world, peer


@pytest.mark.parametrize("known", [True, False], ids=["known to answer", "new"])
def test_answering_partners_do_not_wait_for_silent_ones(
    honest: tuple[World, Peer], known: bool
) -> None:
    world, peer = honest
    with dropping() as nowhere:
        silent, keys = silent_partners(nowhere)
        worker = SendingLoop()
        if known:
            get_to_know(worker, world)
        for one in silent:
            one.submit()
        with running(worker):
            wait_until(lambda: worker.carrier.under_way() >= AT_ONCE // 2)
            before = len(peer.received)
            world.submit()
            wake_up(WakeUp.TRANSMIT)
            wait_until(lambda: len(peer.received) > before, what="the message to who answers")
            assert not ended(keys).exists(), "no POST to a silent partner had to end before"


def silent_partners(address: str) -> tuple[list[World], list[int]]:
    silent = [make_world(timeout=600) for _ in range(SILENT)]
    keys = [one.there.pk for one in silent]
    Partner.objects.filter(pk__in=keys).update(address=address)
    return silent, keys


def ended(partners: list[int]) -> QuerySet[Attempt]:
    attempts = Attempt.objects.filter(message__link__partner__in=partners)
    return attempts.filter(ended_at__isnull=False)


def test_silent_partners_of_which_nothing_is_known_do_not_fill_the_polls(
    honest: tuple[World, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restart: they are due the longest, and have no place for a minute."""
    monkeypatch.setattr(carrier, "SLOW_AT_ONCE", 4)
    world, peer = honest
    with dropping() as nowhere:
        silent, keys = silent_partners(nowhere)
        worker = SendingLoop()
        get_to_know(worker, world)
        put_in_flight(*silent, world)
        before = len(peer.received)
        with running(worker):
            wait_until(lambda: len(peer.received) > before, what="the message to who answers")
            assert not ended(keys).exists(), "no POST to a silent partner had to end before"
