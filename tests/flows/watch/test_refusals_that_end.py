"""Incidents of what was refused end when the partner sends what is accepted."""

import pytest
from django.db.models import F
from pytest_django.fixtures import Settings

from msh.flows.operations import cancel, change_link, watch
from msh.models import (
    Incident,
)
from msh.protocol.kinds import Verdict
from partners.models import Partner
from tests.flows.watch.watching import ANN
from tests.flows.world import World

pytestmark = pytest.mark.django_db


def refused(partner: Partner) -> list[tuple[str, str]]:
    """Kind of each incident of what comes from the partner, and who has resolved it."""
    found = Incident.objects.filter(partner=partner, direction="in").order_by("pk")
    return list(found.values_list("kind", "resolved_by"))


def let_be_quiet(world: World) -> None:
    """What it was refused for has not come again for a while."""
    of_partner = Incident.objects.filter(partner=world.here)
    of_partner.update(last_at=F("last_at") - 2 * watch.QUIET)


def test_no_room_incident_ends_when_a_later_message_is_accepted(
    world: World,
    settings: Settings,
) -> None:
    settings.MSH_STORE_LIMIT = 1
    world.submit()
    world.settle()
    watch.watch()
    assert refused(world.here) == [("store_short", "")]

    settings.MSH_STORE_LIMIT = 0
    change_link.resume(world.there, ANN)
    world.settle()
    watch.watch()
    assert refused(world.here) == [("store_short", "")], "what comes and goes is one incident"
    let_be_quiet(world)
    watch.watch()
    assert refused(world.here) == [("store_short", "msh")]

    settings.MSH_STORE_LIMIT = 1
    world.submit()
    world.settle()
    assert refused(world.here) == [("store_short", "msh"), ("store_short", "")]
    assert not Incident.objects.get(partner=world.here, resolved_at=None).announced


def test_gap_incident_ends_when_the_numbers_fit(world: World) -> None:
    change_link.start_link(world.there, "out", 41, ANN)
    message = world.submit()
    world.settle()
    let_be_quiet(world)
    watch.watch()
    assert refused(world.here) == [("sequence_gap", "")], "nothing was accepted since"

    cancel.cancel(message, Verdict.UNKNOWN, ANN)  # begins again with number 1
    change_link.resume(world.there, ANN)
    world.submit()
    world.settle()
    watch.watch()

    assert len(world.received()) == 1
    assert refused(world.here) == [("sequence_gap", "msh")]
