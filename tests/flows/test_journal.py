"""History that counts, and incidents: what they are about, and nothing else."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from msh.models import History, Incident
from msh.models.history import OLDEST_FIRST
from msh.store import history, incidents
from msh.store.engine import Call, run
from msh.store.history import HistoryRow
from msh.store.incidents import NewIncident
from tests.flows.costs import cost_of, multiply

from .world import World, make_world

pytestmark = pytest.mark.django_db

AT = datetime(2026, 5, 20, 12, 0, 10, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def repetition(world: World, **other: Any) -> Call[None]:
    values: dict[str, Any] = {
        "at": AT,
        "actor": "msh",
        "partner_id": world.here.pk,
        "direction": "in",
        "subject": "message",
        "message_id": "m-1",
        "event": "DuplicateArrived",
        "from_state": "",
        "to_state": "",
        "detail": "discarded",
    }
    return history.insert_or_count(HistoryRow(**(values | other)))


def rows() -> list[tuple[int, datetime | None]]:
    return list(History.objects.order_by("pk").values_list("times", "last_at"))


def test_a_repetition_is_counted_in_the_row_of_its_minute(world: World) -> None:
    for seconds in (0, 1, 40):
        run(repetition(world, at=AT + seconds * SECOND))
    assert rows() == [(3, AT + 40 * SECOND)]
    run(repetition(world, at=AT + 60 * SECOND))
    run(repetition(world, at=AT + 61 * SECOND))
    assert rows() == [(3, AT + 40 * SECOND), (2, AT + 61 * SECOND)]


def test_the_last_time_does_not_go_back_with_the_clock(world: World) -> None:
    for seconds in (0, 30, 20, -5):
        run(repetition(world, at=AT + seconds * SECOND))
    assert rows() == [(4, AT + 30 * SECOND)]


@pytest.mark.parametrize(
    "other",
    [
        {"actor": "ann"},
        {"partner_id": "there"},
        {"direction": "out"},
        {"subject": "link"},
        {"message_id": "m-2"},
        {"event": "AcknowledgementTransmitted"},
        {"from_state": "accepted"},
        {"to_state": "accepted"},
        {"detail": "200"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_different_rows_are_not_repetitions(world: World, other: dict[str, Any]) -> None:
    if "partner_id" in other:
        other = {"partner_id": world.there.pk}
    run(repetition(world))
    run(repetition(world, **other))
    assert rows() == [(1, None), (1, None)]


def test_of_two_rows_of_a_minute_the_newer_one_counts(world: World) -> None:
    run(repetition(world))
    multiply(History.objects.get(), 1)
    run(repetition(world, at=AT + SECOND))
    assert rows() == [(1, None), (2, AT + SECOND)]


def test_a_message_with_a_long_history_is_counted_at_the_same_cost(world: World) -> None:
    run(repetition(world))
    before = cost_of(repetition(world))
    multiply(History.objects.get(), 3_000, event="'Note'")
    assert cost_of(repetition(world)) < before + 150


def later_blocks(world: World, count: int) -> list[int]:
    """A row of another message at the beginning of each. Their ids."""
    first = (History.objects.get().pk >> 16) + 1
    ids = [(first + number) << 16 for number in range(count)]
    for pk in ids:
        History.objects.create(pk=pk, partner=world.here, message_id="m-2", event="Note")
    return ids


def test_a_repetition_is_counted_in_a_row_of_an_earlier_block(world: World) -> None:
    run(repetition(world))
    ids = later_blocks(world, 3)
    run(repetition(world, at=AT + SECOND))
    assert rows()[0] == (2, AT + SECOND)
    assert History.objects.count() == 1 + len(ids)


def test_history_of_a_message_is_found_in_every_block(world: World) -> None:
    run(repetition(world))
    ids = later_blocks(world, 3)
    found = History.objects.of_message("m-2").order_by(*OLDEST_FIRST)
    assert [row.pk for row in found] == ids
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    assert "history_of_message" in found.explain()


# --- incidents ------------------------------------------------------------------------------------


def open_incident(world: World, **values: Any) -> Incident:
    given = {"direction": "out", "kind": "stuck", "message_id": "m-1", "opened_at": AT}
    return Incident.objects.create(partner=world.there, **(given | {"last_at": AT} | values))


def test_an_incident_that_is_open_is_counted_and_says_what_is_so_now(world: World) -> None:
    for number in (1, 2):
        about = (world.there.pk, "out", "stuck", f"m-{number}", f"detail {number}")
        run(incidents.open_incident(NewIncident(*about, AT + number * SECOND)))
    incident = Incident.objects.get()
    assert (incident.count, incident.message_id, incident.detail) == (2, "m-2", "detail 2")
    assert (incident.opened_at, incident.last_at) == (AT + SECOND, AT + 2 * SECOND)


def test_only_what_is_open_about_sending_to_this_partner_is_resolved() -> None:
    world, other = make_world(), make_world()
    ours, earlier = (open_incident(world, kind=kind) for kind in ("stuck", "refused_by_peer"))
    Incident.objects.filter(pk=earlier.pk).update(resolved_at=AT, resolved_by="ann")
    open_incident(world, direction="in")
    open_incident(other)

    who = {"at": timezone.now(), "actor": "msh", "resolution": "it moves"}
    run(incidents.RESOLVE_OUTBOUND(partner_id=world.there.pk, **who))

    resolved = Incident.objects.exclude(resolved_at=None).order_by("pk")
    rows = list(resolved.values_list("pk", "resolved_by"))
    assert rows == [(ours.pk, "msh"), (earlier.pk, "ann")]


def test_each_explanation_is_given_once(world: World) -> None:
    """And of a partner that has ever another one, not all of them."""
    ours = open_incident(world)
    resolved = open_incident(world, kind="refused_by_peer", detail="solved", resolved_at=AT)

    def explain(text: str) -> str:
        about = {"partner_id": world.there.pk, "message_id": "m-1"}
        run(incidents.EXPLAIN(text=text, reason="numbers", **about))
        ours.refresh_from_db()
        return ours.detail

    Incident.objects.filter(pk=ours.pk).update(detail="refused")
    assert explain("5 missing") == "refused; 5 missing"
    assert explain("5 missing") == "refused; 5 missing"
    assert explain("5 miss") == "refused; 5 missing; 5 miss"
    long = "x" * 5_000
    assert len(explain(long)) < 600
    assert len(explain(long)) < 600
    for number in range(100):
        explain(f"{number} missing")
        explain(f"{number}{long}")
    assert 2_000 <= len(explain("again")) < 2_600
    resolved.refresh_from_db()
    assert resolved.detail == "solved"


def test_only_incidents_of_the_message_get_a_note() -> None:
    world, other = make_world(), make_world()
    ours = open_incident(world)
    open_incident(world, kind="refused_by_peer", message_id="m-2")
    open_incident(world, direction="in")
    open_incident(other)

    about = {"partner_id": world.there.pk, "message_id": "m-1"}
    run(incidents.APPEND_TO_DETAIL(text="; received", **about))

    assert list(Incident.objects.exclude(detail="").values_list("pk", "detail")) == [
        (ours.pk, "; received")
    ]
