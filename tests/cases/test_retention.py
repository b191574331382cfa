"""Case 49: what never ends is said, and pruning stops nobody. That MessageIds outlive payloads is
in tests/delivery/test_retention.py."""

import threading
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from msh.flows.operations.prune import _kinds, retention
from msh.models import InboundMessage, OutboundMessage
from msh.store.operations import retention as removal
from tests.delivery.desk import receive
from tests.delivery.pruning import YEARS_AGO, old_world
from tests.flows.world import make_world


@pytest.mark.django_db
@pytest.mark.parametrize("dry_run", [True, False])
def test_what_has_not_ended_is_counted_with_what_ends_it(
    dry_run: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    world = make_world()
    receive(world, 2)
    for _ in range(3):
        world.submit()
    InboundMessage.objects.update(received_at=YEARS_AGO)
    OutboundMessage.objects.filter(state="queued").update(submitted_at=YEARS_AGO)

    call_command("prune", dry_run=dry_run)

    said = capsys.readouterr().err
    assert "3 messages to partners stay, queued: resume their links, or cancel them." in said
    assert "2 received messages stay, accepted: have their consumer take them" in said
    assert OutboundMessage.objects.filter(state="queued").count() == 3
    assert InboundMessage.objects.count() == 2


@pytest.mark.django_db
def test_what_is_young_is_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    world = make_world()
    receive(world, 1)
    world.submit()
    just = timezone.now() - retention().messages + timedelta(hours=1)
    OutboundMessage.objects.update(submitted_at=just)
    call_command("prune", dry_run=True)
    assert "stay" not in capsys.readouterr().err


@pytest.mark.django_db(transaction=True)
def test_messages_are_received_while_a_batch_is_removed() -> None:
    """Of the same pair, while the batch holds its locks."""
    world = old_world()
    has_removed, may_commit = threading.Event(), threading.Event()
    removed: list[int] = []

    def prune() -> None:
        try:
            with transaction.atomic():
                batches = [removal.remove(kind, retention(), 0, 1000) for kind in _kinds().values()]
                removed.extend(batch.count for batch in batches)
                has_removed.set()
                may_commit.wait(60)
        finally:
            connection.close()

    thread = threading.Thread(target=prune)
    thread.start()
    try:
        assert has_removed.wait(60)
        assert sum(removed) > 0
        before = InboundMessage.objects.count()
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1s'")
        receive(world, 1)
        assert InboundMessage.objects.count() == before + 1
        assert not may_commit.is_set()
    finally:
        may_commit.set()
        thread.join()
        connection.close()
