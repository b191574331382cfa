"""What another session holds is left to it, or to the next time: sweeps wait for nobody."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone

from msh.alerts import store as notices
from msh.alerts.flows.announce import make_notices
from msh.alerts.models import OperatorNotice
from msh.flows.operations import change_link
from msh.flows.operations.many import bulk_jobs
from msh.models import BulkAction, BulkItem, InboundMessage, Incident, PartyEvent
from msh.store import incidents
from msh.store.operations.bulk_jobs import claim_item
from msh.store.receiving import forwarding
from msh.store.receiving.forwarding import Due
from msh.store.sending import party_events
from tests.sessions import in_another_session

from .chain import make_chain
from .recovering import ANN
from .world import make_world

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[[], Any]
"""What a sweep does; what it has done, empty if nothing."""
LEASE = timedelta(minutes=5)


def event_to_tell() -> Act:
    world = make_world()
    world.submit()
    world.settle()
    (key,) = party_events.find_due(50)

    def claim() -> list[PartyEvent]:
        with transaction.atomic():
            event = party_events.lock_event(key)
            return [event] if event else []

    return claim


def message_to_send_on() -> Act:
    chain = make_chain()
    chain.submit()
    (job,) = chain.poll()
    chain.hand_over(job)
    due = Due(InboundMessage.objects.get().pk, chain.from_a.pk)

    def lock() -> list[InboundMessage]:
        with transaction.atomic():
            message = forwarding.lock_routed(due)
            return [message] if message else []

    return lock


def item_of_a_bulk_job() -> Act:
    since = timezone.now() - timedelta(hours=1)
    change_link.suspend(make_world().there, ANN)
    bulk_jobs.start(BulkAction.RESUME, since, None, ANN, confirmation=uuid4())

    def claim() -> list[BulkItem]:
        with transaction.atomic():
            item = claim_item(())
            return [item] if item else []

    return claim


def notice_to_tell() -> Act:
    now = timezone.now()
    OperatorNotice.objects.create(
        cause="x", channel="email", partner=make_world().here, kind="x", at=now, due=now
    )

    def claim() -> list[OperatorNotice]:
        with transaction.atomic():
            return notices.claim_notices(notices.Due("email"), 50, LEASE)

    return claim


def incident(kind: str) -> None:
    world = make_world()
    world.submit()
    world.settle()
    at = timezone.now() - timedelta(hours=1)
    Incident.objects.create(partner=world.here, direction="in", kind=kind, opened_at=at, last_at=at)


def incident_to_announce() -> Act:
    incident("stuck")

    def announce() -> list[OperatorNotice]:
        make_notices(["email"])
        return list(OperatorNotice.objects.all())

    return announce


def incident_that_has_passed() -> Act:
    incident("sequence_gap")

    def resolve() -> list[Incident]:
        incidents.resolve_passed(timedelta(minutes=10))
        return list(Incident.objects.exclude(resolved_at=None))

    return resolve


@pytest.mark.parametrize(
    ("prepare", "held"),
    [
        (event_to_tell, PartyEvent),
        (message_to_send_on, InboundMessage),
        (item_of_a_bulk_job, BulkItem),
        (notice_to_tell, OperatorNotice),
        (incident_to_announce, Incident),
        (incident_that_has_passed, Incident),
    ],
    ids=lambda one: one.__name__,
)
def test_row_locked_by_another_session_is_skipped(prepare: Callable[[], Act], held: Any) -> None:
    act = prepare()
    with transaction.atomic():
        assert list(held.objects.select_for_update(no_key=True))
        assert in_another_session(act) == []
    assert len(act()) == 1


@pytest.mark.parametrize(
    "prepare", [event_to_tell, message_to_send_on, item_of_a_bulk_job, notice_to_tell]
)
def test_claimed_row_is_skipped_by_another_worker(prepare: Callable[[], Act]) -> None:
    act = prepare()
    with transaction.atomic():
        assert len(act()) == 1
        assert in_another_session(act) == []
