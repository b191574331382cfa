"""Partners behind a firewall that drops packets: whoever answers does not wait for them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from django.db import connection

from msh.flows import worker_loop
from msh.flows.sending import transmit
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import Attempt
from msh.transport import carrier
from msh.transport.carrier import Carrier
from partners.models import Partner
from tests.peer import Peer
from tests.silent import dropping
from tests.waiting import wait_until

from .world import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = 16
SILENT = 40


@pytest.fixture(autouse=True)
def _few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each POST that gets no connection would hold its place for longer than this test waits."""
    monkeypatch.setattr(worker_loop, "Carrier", partial(Carrier, at_once=AT_ONCE))
    monkeypatch.setattr(transmit, "GRACE", 300.0)
    monkeypatch.setattr(carrier, "SLOW_AFTER", 0.3, raising=False)


@contextmanager
def running(worker: SendingLoop) -> Iterator[None]:
    def run() -> None:
        try:
            worker.run()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        worker.carrier.close()
        thread.join()


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
        silent = [make_world(timeout=600) for _ in range(SILENT)]
        keys = [one.there.pk for one in silent]
        Partner.objects.filter(pk__in=keys).update(address=nowhere)
        worker = SendingLoop()
        if known:
            message = world.submit(semantics="BestEffort")
            with running(worker):
                wait_until(lambda: Attempt.objects.filter(message=message, status=204).exists())
            worker._stopping.clear()
        for one in silent:
            one.submit()
        with running(worker):
            wait_until(lambda: worker.carrier.under_way() >= AT_ONCE // 2)
            before = len(peer.received)
            world.submit()
            wake_up(WakeUp.TRANSMIT)
            wait_until(lambda: len(peer.received) > before, what="the message to who answers")
            ended = Attempt.objects.filter(message__link__partner__in=keys, ended_at__isnull=False)
            assert not ended.exists(), "no POST to a silent partner had to end before"
