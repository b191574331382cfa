"""What a partner repeats is counted in one row, and no page loads all rows of a message."""

from dataclasses import replace

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.db.models import Sum
from django.urls import reverse

from msh.models import History, InboundMessage
from msh.statistics.models import Statistics, Unit
from msh.transport.job import Job
from tests.admin.conftest import client_of
from tests.flows.world import World, make_world
from tests.sql import execute, without_triggers
from tests.statistics.happenings import collect_all

pytestmark = pytest.mark.django_db

COPIES = 12
MANY = 3_000


def sent_once() -> tuple[World, Job]:
    """A world, and the one copy that was made of a message."""
    world = make_world()
    world.submit()
    (copy,) = world.poll()
    world.end(copy)
    return world, copy


def arrive(world: World, copy: Job, count: int) -> None:
    """So many copies come, each of them is acknowledged."""
    for _ in range(count):
        world.hand_over(copy)
        for ack in world.poll():
            world.end(ack)


def counted(event: str) -> int | None:
    total: int | None = History.objects.filter(event=event).aggregate(n=Sum("times"))["n"]
    return total


def test_copies_of_a_message_are_counted_in_one_row() -> None:
    arrive(*sent_once(), COPIES + 1)
    assert InboundMessage.objects.get().duplicates == COPIES
    assert History.objects.filter(event="DuplicateArrived").count() <= 2, "the minute may change"
    assert History.objects.filter(event="AcknowledgementTransmitted").count() <= 3
    assert counted("DuplicateArrived") == COPIES
    assert counted("AcknowledgementTransmitted") == COPIES + 1
    for row in History.objects.filter(times__gt=1):
        assert row.last_at is not None
        assert row.at < row.last_at


def test_acks_of_a_message_that_is_not_in_flight_are_counted_in_one_row() -> None:
    world, copy = sent_once()
    world.hand_over(copy)
    (ack,) = world.poll()
    stranger = make_world()
    document = ack.body
    for one, other in ((world.there, stranger.there), (world.here, stranger.here)):
        document = document.replace(one.uri.encode(), other.uri.encode())
    for _ in range(COPIES):
        stranger.hand_over(replace(ack, partner_id=stranger.here.pk, body=document))
    rows = History.objects.filter(partner=stranger.there)
    assert 1 <= rows.count() <= 2
    assert rows.aggregate(n=Sum("times"))["n"] == COPIES


def test_each_minute_has_its_own_history_row() -> None:
    world, copy = sent_once()
    arrive(world, copy, 4)
    rows = History.objects.filter(event="DuplicateArrived")
    before = rows.count()  # two, if a minute has begun meanwhile
    with without_triggers("msh_history"):
        execute("UPDATE msh_history SET at = at - interval '2 minutes'")
    arrive(world, copy, 1)
    assert rows.count() == before + 1
    last = rows.latest("pk")
    assert (last.times, counted("DuplicateArrived")) == (1, 4)
    collect_all()
    minutes = Statistics.objects.filter(unit=Unit.MINUTE, partner=None)
    assert sum(one.duplicates for one in minutes) == 4


def test_clock_that_was_set_back_stops_no_message() -> None:
    world, copy = sent_once()
    arrive(world, copy, 3)
    with without_triggers("msh_history"):
        execute("UPDATE msh_history SET at = at + interval '1 hour', last_at = NULL")
    arrive(world, copy, 2)
    assert InboundMessage.objects.get().duplicates == 4
    assert counted("DuplicateArrived") == 4


@pytest.mark.parametrize(
    "change",
    [
        "detail = 'nothing happened'",
        "times = times - 1",
        "times = times + 2",
        "at = at - interval '1 day'",
        "times = times + 1, last_at = at - interval '1 day'",
        "times = times + 1, actor = 'ann'",
    ],
)
def test_history_lets_nothing_be_changed_but_its_count(change: str) -> None:
    arrive(*sent_once(), 3)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        connection.cursor().execute(f"UPDATE msh_history SET {change}")


# --- pages ---------------------------------------------------------------------------------------
DUPLICATE = "Received again; the duplicate was discarded"


def message_with_much_history() -> InboundMessage:
    world, copy = sent_once()
    arrive(world, copy, 1)
    message = InboundMessage.objects.get()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO msh_history (at, actor, partner_id, direction, subject, message_id, event,"
            " from_state, to_state, detail) SELECT now() + n * interval '1 ms', 'msh', %s, 'in',"
            " 'message', %s, CASE n %% 2 WHEN 0 THEN 'DuplicateArrived' ELSE"
            " 'AcknowledgementTransmitted' END, '', '', '' FROM generate_series(1, %s) n",
            (world.here.pk, message.message_id, MANY),
        )
    return message


def test_page_of_a_message_shows_the_newest_rows_and_counts_the_others() -> None:
    message = message_with_much_history()
    client = client_of("vera", "view_inboundmessage")
    page = client.get(reverse("admin:msh_inboundmessage_change", args=[message.pk]))
    (timeline,) = (one for one in page.context["tables"] if one.title == "Timeline")
    assert len(timeline.rows) < 300
    shown = [row for row in timeline.rows if row[1] == DUPLICATE]
    (summary,) = (row[-1] for row in shown if "times since" in row[-1])
    assert f"{MANY // 2 - len(shown) + 1} times since" in summary


def test_command_shows_the_newest_rows_and_all_of_them_if_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = message_with_much_history()
    call_command("trace", message.message_id)
    assert len(capsys.readouterr().out.splitlines()) < 300
    call_command("trace", message.message_id, "--all")
    assert len(capsys.readouterr().out.splitlines()) > MANY
