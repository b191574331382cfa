"""What retention removes and what it keeps: one condition at a time."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone
from pytest_django import Settings

from msh.alerts.models import Channel, OperatorNotice
from msh.flows.operations import prune
from msh.flows.operations.prune import prune_all
from msh.models import (
    BulkAction,
    BulkJob,
    History,
    InboundMessage,
    InboundPayload,
    Incident,
    IncidentNote,
    OutboundLink,
    OutboundMessage,
    OutboundPayload,
    Signal,
)
from msh.store.operations import retention
from msh.store.operations.retention_sql import kinds
from partners.models import Agreement
from tests.flows.world import World, make_world

from .desk import Desk, receive
from .pruning import DAY, YEARS_AGO, age, numbers, old_world

pytestmark = pytest.mark.django_db

NOW = timezone.now()
BEST_EFFORT = {"semantics": "BestEffort", "sequence_number": None}

# --- messages that came ---------------------------------------------------------------------------


def inbound(number: int = 2) -> Any:
    """The message with this number, as a query."""
    return InboundMessage.objects.filter(sequence_number=number)


@pytest.mark.parametrize(
    ("values", "goes"),
    [
        ({"state": "delivered"}, True),
        ({"state": "rejected"}, True),
        ({"state": "forwarded"}, True),
        ({"state": "accepted"}, False),
        ({"state": "parked"}, False),
        ({"state": "routed"}, False),
        ({"state": "withheld"}, False),
        ({"state": "forwarding"}, False),
        ({"delivered_at": NOW}, False),
        ({"delivered_at": None}, False),
        (BEST_EFFORT, True),
    ],
)
def test_a_message_that_came_goes_with_its_payloads_when_it_has_ended(
    values: dict[str, Any], goes: bool
) -> None:
    old_world()
    key = inbound().get().pk
    inbound().update(**values)
    prune_all()
    assert InboundMessage.objects.filter(pk=key).exists() is not goes
    assert InboundPayload.objects.filter(message=key).exists() is not goes


@pytest.mark.parametrize(
    "terms",
    [
        {"timeout": 2 * DAY, "retries": 0, "transient_time_limit": 1},
        {"timeout": 1, "retries": 2, "retry_interval": DAY, "transient_time_limit": 1},
        {"timeout": 1, "retries": 0, "transient_time_limit": 2 * DAY},
    ],
    ids=["Timeout", "retries", "waits that are asked for"],
)
def test_an_id_stays_for_ten_times_as_long_as_a_copy_may_come(
    terms: dict[str, int], settings: Settings
) -> None:
    settings.MSH_KEEP_MESSAGES = 1
    world, other = old_world(), make_world()
    Agreement.objects.filter(partner=world.here).update(**terms)
    Agreement.objects.filter(partner=other.here).update(timeout=1, retries=0)
    inbound().update(delivered_at=NOW - timedelta(days=19))
    prune_all()
    assert numbers()[1] == [1, 2, 4]
    inbound().update(delivered_at=NOW - timedelta(days=21))
    prune_all()
    assert numbers()[1] == [1, 4]


def test_a_message_stays_as_long_as_the_one_it_was_sent_on_as() -> None:
    world = old_world()
    message = inbound().get()
    onward = world.submit()
    OutboundMessage.objects.filter(pk=onward.pk).update(forwards=message)
    prune_all()
    assert numbers()[1] == [1, 2, 4]
    OutboundMessage.objects.filter(pk=onward.pk).update(forwards=None)
    prune_all()
    assert numbers()[1] == [1, 4]


# --- messages that were sent ----------------------------------------------------------------------


def outbound(number: int = 2) -> Any:
    return OutboundMessage.objects.filter(sequence_number=number)


@pytest.mark.parametrize(
    ("values", "goes"),
    [
        ({"state": "acknowledged"}, True),
        ({"state": "cancelled"}, True),
        ({"state": "sent"}, True),
        ({"state": "failed"}, True),
        ({"state": "queued"}, False),
        ({"state": "in_flight"}, False),
        ({"state": "rewound"}, False),
        ({"completed_at": NOW}, False),
        ({"completed_at": None}, False),
        (BEST_EFFORT, True),
    ],
)
def test_a_message_that_was_sent_goes_with_its_payloads_when_it_has_ended(
    values: dict[str, Any], goes: bool
) -> None:
    old_world()
    key = outbound().get().pk
    outbound().update(**values)
    prune_all()
    assert OutboundMessage.objects.filter(pk=key).exists() is not goes
    assert OutboundPayload.objects.filter(message=key).exists() is not goes


def test_message_in_flight_is_not_removed() -> None:
    """It was acknowledged late, or its outcome is being written."""
    world = old_world()
    OutboundLink.objects.filter(partner=world.there).update(
        state="suspended", suspended_since=NOW, in_flight=outbound().get()
    )
    prune_all()
    assert numbers()[0] == [2, 4]


def test_a_message_stays_as_long_as_the_one_that_corrects_it() -> None:
    old_world()
    outbound(4).update(corrects=outbound().get())
    prune_all()
    assert numbers()[0] == [2, 4]


def test_the_last_number_of_each_partner_stays() -> None:
    old_world(2)
    receive(make_world(), 5)
    age()
    prune_all()
    assert numbers()[0] == [2, 5]


def test_the_last_message_before_a_reset_goes_when_there_is_one_after_it() -> None:
    world = old_world(3)
    OutboundLink.objects.filter(partner=world.there).update(next_number=1, epoch=F("epoch") + 1)
    receive(world, 1)
    Desk().settle()
    age()
    prune_all()
    assert numbers()[0] == [1]


@pytest.mark.parametrize(
    ("kind", "payloads", "left"),
    [("inbound messages", InboundPayload, [1, 4]), ("outbound messages", OutboundPayload, [4])],
)
def test_payloads_that_are_left_go_with_their_message(
    kind: str, payloads: Any, left: list[int]
) -> None:
    """Others held them when it was their turn."""
    old_world()
    retention.remove(kinds(heard=False)[kind], prune.retention(), 0, 100)
    numbers = payloads.objects.order_by("pk").values_list("message__sequence_number", flat=True)
    assert list(numbers) == left


@pytest.mark.parametrize("direction", ["in", "out"])
def test_history_stays_as_long_as_its_message(direction: str) -> None:
    world = old_world()
    partner = world.here if direction == "in" else world.there
    messages = InboundMessage.objects if direction == "in" else OutboundMessage.objects
    for message_id in messages.values_list("message_id", flat=True):
        about = {"subject": "message", "message_id": message_id, "event": "Note"}
        History.objects.create(at=YEARS_AGO, partner=partner, direction=direction, **about)
    prune_all()
    left = History.objects.filter(event="Note").values_list("message_id", flat=True)
    assert sorted(left) == sorted(messages.values_list("message_id", flat=True))


# --- what is about them ---------------------------------------------------------------------------


def signal(world: World, **values: Any) -> Any:
    world.submit()
    world.settle()
    Signal.objects.update(expires_at=YEARS_AGO)
    Signal.objects.update(**values)
    return Signal.objects.all()


def incident(world: World, **values: Any) -> Any:
    made = Incident.objects.create(
        partner=world.here, direction="in", kind="stuck", opened_at=YEARS_AGO, last_at=YEARS_AGO
    )
    IncidentNote.objects.create(incident=made, author="ann", text="looked at")
    notice(world, incident=made)
    Incident.objects.update(**values)
    return Incident.objects.all()


def notice(world: World, **values: Any) -> Any:
    given = {"at": YEARS_AGO, "due": YEARS_AGO, "sent_at": YEARS_AGO} | values
    OperatorNotice.objects.create(
        cause="cause", channel=Channel.EMAIL, partner=world.here, kind="late", **given
    )
    return OperatorNotice.objects.all()


def bulk_job(world: World, **values: Any) -> Any:
    made = BulkJob.objects.create(
        action=BulkAction.values[0], since=YEARS_AGO, actor="ann", started_at=YEARS_AGO, total=1
    )
    made.items.create(key=1, label="one")
    BulkJob.objects.update(**values)
    return BulkJob.objects.all()


@pytest.mark.parametrize(
    ("make", "values", "goes"),
    [
        (signal, {}, True),
        (signal, {"pending": 1}, False),
        (signal, {"expires_at": NOW}, False),
        (signal, {"kept": True}, False),  # EB-110: its message is there
        (signal, {"kept": True, "ref_to_message_id": "of a message that is gone"}, True),
        (incident, {"resolved_at": YEARS_AGO}, True),
        (incident, {"resolved_at": NOW}, False),
        (incident, {}, False),
        (notice, {}, True),
        (notice, {"at": NOW}, False),
        (bulk_job, {"ended_at": YEARS_AGO}, True),
        (bulk_job, {"ended_at": NOW}, False),
        (bulk_job, {}, False),
    ],
)
def test_finished_rows_about_messages_are_removed(
    make: Callable[..., Any], values: dict[str, Any], goes: bool
) -> None:
    rows = make(make_world(), **values)
    kept = OperatorNotice.objects.count()
    prune_all()
    assert rows.exists() is not goes
    assert OperatorNotice.objects.count() == (0 if goes else kept)
