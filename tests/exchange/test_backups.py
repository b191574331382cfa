"""One side of two real MSHs is restored from a backup, with traffic in between (D2, D17, D43).

It ends in "resynchronise", says what may be lost or duplicated, and traffic flows again: nothing is
lost or duplicated without a person having been notified.
"""

import pytest

from msh.flows.operations import change_link, resynchronise
from msh.models import Incident
from msh.protocol.resynchronisation import Arriving, Repair
from msh.store.history import Actor
from tests.exchange.sides import Side

ANN = Actor("ann", "restored from a backup")


@pytest.mark.requirement("000-005", "000-070")
def test_the_partner_is_restored_then_we_are(sides: tuple[Side, Side]) -> None:
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
