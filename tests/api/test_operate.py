"""`links` and `incidents`: the console's actions by its flows, permissions and audit."""

import json

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from msh.api.row_actions import API_ACTIONS, ApiAction
from msh.flows.operations import change_link
from msh.models import History, Incident, OutboundLink
from msh.protocol.reason import Refusal
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_links
from msh.store.receiving.refusals import note_refused
from tests.admin.conftest import suspended_world, waiting_world
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.delivery.desk import Desk, receive
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

REASON = {"reason": "they are back"}
LINK = "view_outboundlink"
VERBS = {"suspend": "suspend", "resume": "resume", "send-now": "send_now"}


def test_links_with_what_they_wait_for(token: Tokens) -> None:
    suspended, waiting = suspended_world(queued=2), waiting_world()
    operator = token("operate", may=(LINK,))
    first, second = operator.get("links").json["results"]
    assert (first["partner"], first["state"], first["queued"]) == (
        *(suspended.there.name, "suspended", 2),
    )
    assert (first["next_number"], first["suspended_for"]) == (2, suspended.link.suspended_for)
    assert "415" in first["suspended_detail"]
    assert first["in_flight"]
    assert first["late_ack"] is False
    assert (second["partner"], second["state"], second["queued"]) == (
        *(waiting.there.name, "waiting", 0),
    )
    assert second["due"] is not None
    (only,) = operator.get("links", state="suspended").json["results"]
    assert only == first
    page = operator.get("links", limit=1).json
    assert operator.get("links", after=page["next"]).json["results"] == [second]


def test_history_of_a_link_has_what_was_refused_before_it_was_a_message(
    token: Tokens, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the console's page and the command line: one list of both directions."""
    world, other = make_world(), make_world()
    open_links(world.there)
    for _ in range(2):
        about = (Refusal.INCOMPLETE, "408: 4 bytes of the body arrived")
        note_refused(world.there.pk, "RequestRefused", *about)
    note_refused(other.there.pk, "RequestRefused", Refusal.DOCUMENT, "400: unreadable")
    change_link.suspend(world.there, Actor("ann", "maintenance"))
    operator = token("operate", may=(LINK,))
    path = f"links/{world.link.pk}/history"

    refused, suspended = operator.get(path).json["results"]

    assert (refused["event"], refused["times"]) == ("RequestRefused", 2)
    assert refused["detail"] == "408: 4 bytes of the body arrived"
    assert (suspended["direction"], suspended["actor"]) == ("out", "ann")
    assert refused["code"] == Refusal.INCOMPLETE
    assert operator.get(path, direction="in").json["results"] == [refused]
    assert operator.get(path, code=Refusal.INCOMPLETE).json["results"] == [refused]
    assert operator.get(path, code=Refusal.NETWORK).json["results"] == []
    first = operator.get(path, limit=1).json
    assert first["results"] == [refused]
    assert operator.get(path, after=first["next"]).json == {"results": [suspended], "next": None}
    assert_problem(operator.get("links/999999/history"), 404)
    assert_problem(token("operate").get(path), 403)
    call_command("links", history=world.there.name, json=True)
    rows = json.loads(capsys.readouterr().out)
    assert [row["event"] for row in rows] == [refused["event"], suspended["event"]]
    with pytest.raises(CommandError, match="No partner is named 'nobody'"):
        call_command("links", history="nobody")


def test_incidents(token: Tokens) -> None:
    world = suspended_world()
    operator = token("operate", may=("view_incident",))
    (incident,) = operator.get("incidents").json["results"]
    assert (incident["partner"], incident["direction"]) == (world.there.name, "out")
    assert incident["resolved_at"] is None
    assert operator.get("incidents", open="true").json["results"] == [incident]
    assert operator.get("incidents", open="false").json["results"] == []


@pytest.mark.requirement("000-033", "000-034")
def test_resume_with_audit(token: Tokens) -> None:
    world = suspended_world()
    operator = token("operate", may=(LINK, "resume_outboundlink"))
    answer = operator.post(f"links/{world.link.pk}/resume", REASON)
    assert answer.json == {
        "id": world.link.pk,
        "partner": world.there.name,
        "state": "waiting",
        "text": "Resumed. Message 1 is sent again with the same bytes, then the queue.",
    }
    entry = History.objects.filter(event="OperatorResumed").get()
    assert entry.actor == operator.name
    assert entry.detail.endswith(f"they are back (API token {operator.name})")
    assert Incident.objects.get().resolved_by == operator.name
    (job,) = world.poll()
    assert world.hand_over(job).status == 204


def test_suspend_and_send_now(token: Tokens) -> None:
    world = waiting_world()
    operator = token("operate", may=(LINK, "suspend_outboundlink", "send_now_outboundlink"))
    path = f"links/{world.link.pk}"
    assert operator.post(f"{path}/send-now", REASON).json["state"] == "waiting"
    assert len(world.poll()) == 1
    assert operator.post(f"{path}/suspend", REASON).json["state"] == "suspended"
    assert_problem(operator.post(f"{path}/suspend", REASON), 409, "already suspended")
    assert_problem(operator.post(f"{path}/send-now", REASON), 409)


@pytest.mark.parametrize("declared", API_ACTIONS, ids=lambda declared: declared.name)
def test_each_action_needs_every_permission_of_the_console(
    token: Tokens, declared: ApiAction
) -> None:
    """Of links, conversations, deliveries, windows, jobs, incidents, refusals."""
    path = declared.path.replace("<int:id>", "1")
    needed = {name.partition(".")[2] for name in declared.action.permissions}
    for missing in needed:
        answer = token("operate", may=tuple(needed - {missing})).post(path, REASON)
        assert_problem(answer, 403, missing)


def test_reading_needs_permission_too(token: Tokens) -> None:
    operator = token("operate")
    assert_problem(operator.get("links"), 403, "msh.view_outboundlink")
    assert_problem(operator.get("incidents"), 403, "msh.view_incident")


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": " "}, {"reason": "x" * 501}])
def test_action_needs_a_reason(token: Tokens, body: dict[str, str]) -> None:
    world = suspended_world()
    operator = token("operate", may=(LINK, "resume_outboundlink"))
    answer = operator.post(f"links/{world.link.pk}/resume", body)
    assert_problem(answer, 422, "reason")
    assert answer.json["field"] == "reason"
    assert world.link.state == "suspended"


@pytest.mark.parametrize("verb", VERBS)
def test_action_with_another_message_in_flight_is_409(token: Tokens, verb: str) -> None:
    world = waiting_world() if verb != "resume" else suspended_world()
    may = (LINK, f"{VERBS[verb]}_outboundlink")
    operator, path = token("operate", may=may), f"links/{world.link.pk}/{verb}"
    before = OutboundLink.objects.values().get(pk=world.link.pk)
    for other in ("", "the-one-before"):
        answer = operator.post(path, REASON | {"if_message": other})
        assert_problem(answer, 409, f"message {world.link.in_flight} is in flight")
    assert OutboundLink.objects.values().get(pk=world.link.pk) == before

    assert operator.post(path, REASON | {"if_message": str(world.link.in_flight)}).status == 200


def test_resume_does_not_end_a_later_suspension(token: Tokens) -> None:
    world = suspended_world()
    operator = token("operate", may=(LINK, "resume_outboundlink"))
    (seen,) = operator.get("links").json["results"]
    about = {"if_message": seen["in_flight"], "if_suspended_since": seen["suspended_since"]}
    change_link.resume(world.there, Actor("bob", "they are back"))
    change_link.suspend(world.there, Actor("bob", "STOP: they restore a backup"))

    answer = operator.post(f"links/{world.link.pk}/resume", REASON | about)

    assert_problem(answer, 409, "STOP: they restore a backup")
    assert world.link.state == "suspended"
    (seen,) = operator.get("links").json["results"]
    about = {"if_message": seen["in_flight"], "if_suspended_since": seen["suspended_since"]}
    assert operator.post(f"links/{world.link.pk}/resume", REASON | about).status == 200


def test_nothing_in_flight_may_be_a_condition_too(token: Tokens) -> None:
    world = make_world()
    change_link.suspend(world.there, Actor("ann", "they move"))
    operator = token("operate", may=(LINK, "resume_outboundlink"))
    path = f"links/{world.link.pk}/resume"
    assert_problem(operator.post(path, REASON | {"if_message": "m-1"}), 409, "nothing is in flight")
    assert operator.post(path, REASON | {"if_message": ""}).status == 200


def test_link_that_is_not_there(token: Tokens) -> None:
    operator = token("operate", may=(LINK, "resume_outboundlink"))
    for number in (1, 2**70):
        assert_problem(operator.post(f"links/{number}/resume", REASON), 404)


def test_resolve(token: Tokens) -> None:
    receive(make_world())
    Desk().settle()  # nobody takes it
    (incident,) = Incident.objects.all()
    may = ("view_incident", "resolve_incident")
    path = f"incidents/{incident.pk}/resolve"
    assert_problem(token("operate", may=may[:1]).post(path, REASON), 403, "resolve_incident")
    operator = token("operate", may=may)
    answer = operator.post(path, REASON)
    assert answer.status == 200
    assert (answer.json["resolved_by"], answer.json["partner"]) == (
        *(operator.name, incident.partner.name),
    )
    assert "they are back" in answer.json["resolution"]
    assert_problem(operator.post(path, REASON), 409, "already resolved")


def test_resolving_does_not_resume(token: Tokens) -> None:
    suspended_world()
    operator = token("operate", may=("view_incident", "resolve_incident"))
    answer = operator.post(f"incidents/{Incident.objects.get().pk}/resolve", REASON)
    assert_problem(answer, 409, "Resume the link")


def test_user_who_may_no_longer(token: Tokens) -> None:
    operator = token("operate", may=(LINK,))
    assert operator.get("links").status == 200
    User.objects.get(username=operator.name).user_permissions.clear()
    assert operator.get("links").status == 403
