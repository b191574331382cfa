"""Two real MSHs that exchange messages, and what PostgreSQL does to them: sessions end, one side is
restored from a backup. The tests share them."""

import random
import time
from collections.abc import Iterator

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from msh.flows.operations import change_link, resynchronise
from msh.models import Incident
from msh.protocol.resynchronisation import Arriving, Repair
from msh.store.history import Actor
from tests.exchange.running import two_machines
from tests.exchange.sides import Side

ANN = Actor("ann", "restored from a backup")
BATCHES = 24
AT_ONCE = 3
BETWEEN = 0.4  # seconds at most between two batches


@pytest.fixture(scope="module")
def sides(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[tuple[Side, Side]]:
    """A and B, which know each other."""
    with django_db_blocker.unblock(), two_machines("sides", tmp_path_factory) as machines:
        a, b = (Side(machine) for machine in machines)
        a.knows(b, "b")
        b.knows(a, "a")
        yield a, b


@pytest.mark.requirement("000-005", "000-070")
def test_the_partner_is_restored_then_we_are(sides: tuple[Side, Side]) -> None:
    """It ends in "resynchronise", says what may be lost or duplicated, and traffic flows again:
    nothing is lost or duplicated without a person having been notified (D2, D17, D43)."""
    a, b = sides
    everything = the_partner_is_restored(a, b)
    everything += we_are_restored(a)
    assert b.accepted() == everything
    b.until_taken_once(everything)
    with a.msh.database():
        assert not Incident.objects.filter(partner__name="b", resolved_at=None).exists()
        compared = resynchronise.compare(a.partner, resynchronise.ask(a.partner))
        assert (compared.plan.repair, compared.arriving) == (Repair.NOTHING, Arriving.AGREED)


def the_partner_is_restored(a: Side, b: Side) -> list[str]:
    """B forgets three messages; the next one is a gap there. What was accepted in the end."""
    kept = a.submits(3)
    a.until_acknowledged(kept)
    b.until_taken_once(kept)
    b.msh.back_up()
    lost = a.submits(3)
    a.until_acknowledged(lost)
    b.until_taken_once(lost)

    b.msh.restore()
    new = a.submits(2)
    a.until_suspended()
    assert b.accepted() == kept
    with a.msh.database():
        incident = Incident.objects.get(partner__name="b", resolved_at=None)
        assert (incident.kind, "4 to 6 missing" in incident.detail) == ("resynchronise", True)
        theirs = resynchronise.ask(a.partner)
        made = resynchronise.compare(a.partner, theirs).plan
        assert (made.repair, made.lost) == (Repair.REWIND, "")
        assert "Numbers 4 to 7 (4 in all) are sent again" in made.text
        assert made.duplicated.startswith("numbers 4 to 7")
        resynchronise.apply(a.partner, theirs, ANN)
    a.until_acknowledged(new)
    assert b.accepted() == [*kept, *lost, *new]
    return [*kept, *lost, *new]


def we_are_restored(a: Side) -> list[str]:
    """A forgets three messages that B has; one of them is in its queue again."""
    with a.msh.database():
        change_link.suspend(a.partner, ANN)
    queued = a.submits(1)
    a.msh.back_up()
    with a.msh.database():
        change_link.resume(a.partner, ANN)
    forgotten = [*queued, *a.submits(2)]
    a.until_acknowledged(forgotten)
    a.msh.restore()
    a.until_suspended()
    again = a.submits(1)
    with a.msh.database():
        change_link.resume(a.partner, ANN)
    a.until_suspended()  # its number was used there for another message
    with a.msh.database():
        assert Incident.objects.filter(kind="resynchronise", resolved_at=None).exists()
        theirs = resynchronise.ask(a.partner)
        compared = resynchronise.compare(a.partner, theirs)
        assert (compared.plan.repair, compared.plan.next_number) == (Repair.ADOPT, 12)
        assert "to 11" in compared.plan.lost
        assert compared.plan.duplicated
        resynchronise.apply(a.partner, theirs, ANN)
    last = a.submits(1)
    a.until_acknowledged(last)
    return [*forgotten, *again, *last]


@pytest.mark.requirement("000-005")
def test_sessions_are_lost_under_traffic(sides: tuple[Side, Side]) -> None:
    """As when PostgreSQL is restarted. Every message is delivered, once, and soon afterwards: no
    process keeps a session that is lost."""
    a, b = sides
    before = len(b.accepted())
    submitted: list[str] = []
    ended = 0
    for _ in range(BATCHES):
        submitted += a.submits(AT_ONCE)
        time.sleep(random.random() * BETWEEN)
        ended += _end_half(a) + _end_half(b)
    assert ended
    a.until_acknowledged(submitted)
    b.until_taken_once(submitted)
    assert b.accepted()[before:] == submitted


def _end_half(side: Side) -> int:
    """End each session with its database with a probability of one half; how many those were."""
    with connection._nodb_cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND random() < 0.5",
            [side.msh._database],
        )
        return len(cursor.fetchall())
