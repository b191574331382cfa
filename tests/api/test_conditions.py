"""ETag and If-Match: an operator's action is done only if its row is as it was read."""

from functools import partial
from typing import Any

import pytest
from django.db.models import F

from msh.flows.operations import change_link
from msh.models import History, Incident, MaintenanceWindow, OutboundLink, OutboundMessage
from msh.protocol.reason import Refusal
from msh.store.history import Actor
from tests.admin.conftest import suspended_world
from tests.api.application import Answer, Application, order
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.delivery.desk import Desk, receive
from tests.flows.world import World, make_world
from tests.sessions import meet

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "in the console")


@pytest.fixture
def operator(token: Tokens) -> Application:
    return token(
        *("operate", "send"),
        may=(
            *("view_outboundlink", "suspend_outboundlink", "resume_outboundlink"),
            *("view_incident", "resolve_incident", "view_maintenancewindow"),
        ),
    )


def act(operator: Application, path: str, tag: str, **fields: Any) -> Answer:
    return operator.post(path, {"reason": "they are back", **fields}, **{"If-Match": tag})


def test_a_link_that_has_not_changed_is_resumed(operator: Application) -> None:
    world = suspended_world(queued=1)
    path = f"links/{world.link.pk}"
    tag = operator.get(path).headers["ETag"]
    world.submit()  # the queue grows
    assert operator.get(path).headers["ETag"] == tag
    assert operator.get(path).json["queued"] == 2
    assert act(operator, f"{path}/resume", tag).status == 200
    assert operator.get(path).headers["ETag"] != tag


def test_a_link_that_has_changed_is_left_alone(operator: Application) -> None:
    world = suspended_world()
    path = f"links/{world.link.pk}"
    tag = operator.get(path).headers["ETag"]
    change_link.resume(world.there, ANN)
    change_link.suspend(world.there, ANN)
    noted = History.objects.count()
    refused = act(operator, f"{path}/resume", tag)
    assert_problem(refused, 412, "changed", code=Refusal.CHANGED)
    assert refused.json["field"] == "If-Match"
    assert History.objects.count() == noted
    assert OutboundLink.objects.get(pk=world.link.pk).state == "suspended"


@pytest.mark.django_db(transaction=True)
def test_a_change_at_the_same_moment_is_seen(operator: Application) -> None:
    world = suspended_world()
    path = f"links/{world.link.pk}"
    tag = operator.get(path).headers["ETag"]

    def by_another() -> None:
        change_link.resume(world.there, ANN)
        change_link.suspend(world.there, ANN)

    answer = meet(by_another, partial(act, operator, f"{path}/resume", tag))

    assert_problem(answer, 412, code=Refusal.CHANGED)
    assert OutboundLink.objects.get(pk=world.link.pk).state == "suspended"


def test_an_incident_is_resolved_as_it_was_read(operator: Application) -> None:
    receive(make_world())
    Desk().settle()  # nobody takes it
    incident = Incident.objects.get()
    path = f"incidents/{incident.pk}"
    tag = operator.get(path).headers["ETag"]
    Incident.objects.update(count=F("count") + 1)
    assert_problem(act(operator, f"{path}/resolve", tag), 412, code=Refusal.CHANGED)
    assert Incident.objects.get().resolved_at is None
    tag = operator.get(path).headers["ETag"]
    assert act(operator, f"{path}/resolve", tag).status == 200


def test_a_window_is_ended_as_it_was_read(operator: Application) -> None:
    world = suspended_world()
    times = {"starts_at": "2098-12-31T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z"}
    window = operator.post(f"links/{world.link.pk}/plan-maintenance", {"reason": "x", **times})
    path = f"maintenance/{window.json['id']}"
    read = operator.get(path)
    assert read.json == window.json
    MaintenanceWindow.objects.update(ends_at="2099-01-01T01:00:00Z")
    assert_problem(act(operator, f"{path}/end", read.headers["ETag"]), 412, code=Refusal.CHANGED)
    tag = operator.get(path).headers["ETag"]
    assert act(operator, f"{path}/end", tag).json["state"] == "cancelled"


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*", ' {} , "more"'])
def test_tags_as_rfc_9110_writes_them(operator: Application, form: str) -> None:
    """A proxy that compresses makes a tag weak."""
    path = f"links/{suspended_world().link.pk}"
    tag = operator.get(path).headers["ETag"]
    assert act(operator, f"{path}/resume", form.format(tag)).status == 200


@pytest.mark.parametrize("shown", ["", "naked", '"open', '"a" "b"', '"a";', "W/"])
def test_what_is_no_tag_is_refused(operator: Application, shown: str) -> None:
    path = f"links/{suspended_world().link.pk}/resume"
    assert_problem(act(operator, path, shown), 400, code=Refusal.INVALID)
    assert OutboundLink.objects.get().state == "suspended"


def test_where_nothing_is_compared_a_precondition_is_refused(
    operator: Application, world: World
) -> None:
    answer = operator.post("messages", order(world), **{"If-Match": '"a"'})
    assert_problem(answer, 400, "omit it", code=Refusal.INVALID)
    assert not OutboundMessage.objects.exists()


@pytest.mark.parametrize("path", ["links", "incidents", "maintenance"])
def test_a_row_that_is_none(operator: Application, path: str) -> None:
    assert_problem(operator.get(f"{path}/999999"), 404)
    assert_problem(operator.get(f"{path}/{2**63}"), 404)
