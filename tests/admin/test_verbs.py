"""The operator's verbs as dialogs: who may, what they do, and what does nothing."""

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.flows.operations import change_link
from msh.models import Attempt, History, Incident, OutboundLink, OutboundMessage
from msh.store.history import Actor
from tests.flows.world import World

from . import conftest
from .conftest import VERBS, client_of, late_world, suspended_world, waiting_world

pytestmark = pytest.mark.django_db

LIST = reverse("admin:msh_outboundlink_changelist")


def address(verb: str, link: OutboundLink) -> str:
    return reverse(f"admin:msh_outboundlink_{verb}", args=[link.pk])


def submit(client: Client, verb: str, link: OutboundLink, reason: str = "partner is back") -> Any:
    return conftest.submit(client, address(verb, link), reason)


def said(response: Any) -> str:
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


def as_stored(world: World) -> dict[str, Any]:
    return {**OutboundLink.objects.filter(partner=world.there).values().get()}


@pytest.mark.requirement("000-033")
def test_resume_sends_the_same_bytes_again_with_a_fresh_retry_counter(operator: Client) -> None:
    world = suspended_world()
    OutboundLink.objects.filter(pk=world.link.pk).update(retries_spent=2)
    first = OutboundMessage.objects.get(state="in_flight")

    response = submit(operator, "resume", world.link)

    assert response.status_code == 302
    assert "resumed. The link is now waiting: message 1 is sent again" in said(response)
    assert (world.link.state, world.link.retries_spent) == ("waiting", 0)
    (again,) = world.look()
    assert hashlib.sha256(again.body).digest() == bytes(first.body_sha256 or b"")
    assert world.link.attempt == 2


def test_resume_keeps_who_and_why(operator: Client) -> None:
    world = suspended_world()

    submit(operator, "resume", world.link, "partner mended its gateway")

    act = History.objects.filter(subject="link", event="OperatorResumed").get()
    assert (act.actor, act.from_state, act.to_state) == ("ann", "suspended", "waiting")
    assert act.detail == "partner mended its gateway"
    incident = Incident.objects.get()
    assert (incident.resolved_by, incident.resolution) == ("ann", "partner mended its gateway")
    assert incident.resolved_at is not None


def test_suspend_keeps_the_message_in_flight(operator: Client) -> None:
    world = waiting_world()

    response = submit(operator, "suspend", world.link, "their data centre moves")

    assert "The link is now suspended: nothing is sent until it is resumed." in said(response)
    assert (world.link.suspended_for, world.link.suspended_detail) == (
        "operator",
        "ann: their data centre moves",
    )
    assert world.link.in_flight is not None


def test_reset_retries_keeps_the_deadline(operator: Client) -> None:
    world = waiting_world(retries_spent=3)
    due = world.link.due

    submit(operator, "reset_retries", world.link)

    assert (world.link.retries_spent, world.link.due) == (0, due)
    act = History.objects.get(event="RetriesReset")
    assert act.detail == "retries spent 3 → 0; partner is back"


def test_send_now_sends_another_copy_and_spends_nothing(operator: Client) -> None:
    world = waiting_world()
    assert world.look() == []

    submit(operator, "send_now", world.link)

    assert len(world.look()) == 1
    assert (world.link.attempt, world.link.retries_spent) == (2, 0)


@pytest.mark.parametrize("verb", VERBS)
def test_get_shows_the_dialog_and_changes_nothing(operator: Client, verb: str) -> None:
    world = suspended_world() if verb == "resume" else waiting_world(retries_spent=1)
    before, history = as_stored(world), History.objects.count()

    response = operator.get(address(verb, world.link))

    assert response.status_code == 200
    assert 'name="reason"' in response.content.decode()
    assert (as_stored(world), History.objects.count()) == (before, history)


@pytest.mark.parametrize("verb", VERBS)
def test_without_its_permission_a_verb_is_refused(verb: str) -> None:
    world = suspended_world() if verb == "resume" else waiting_world()
    others = [f"{other}_outboundlink" for other in VERBS if other != verb]
    client = client_of("carl", "view_outboundlink", *others)
    before = as_stored(world)

    assert submit(client, verb, world.link).status_code == 403
    assert client.get(address(verb, world.link)).status_code == 403
    assert as_stored(world) == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_needs_the_right_to_look_as_well(verb: str) -> None:
    world = waiting_world()

    client = client_of("carl", f"{verb}_outboundlink")

    assert submit(client, verb, world.link).status_code == 403


@pytest.mark.parametrize("verb", VERBS)
def test_a_stranger_is_sent_to_the_log_in(client: Client, verb: str) -> None:
    world = suspended_world()
    before = as_stored(world)

    response = submit(client, verb, world.link)

    assert response.status_code == 302
    assert response["Location"].startswith(reverse("admin:login"))
    assert as_stored(world) == before


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_csrf_token_a_verb_is_refused(verb: str) -> None:
    world = suspended_world() if verb == "resume" else waiting_world(retries_spent=1)
    rights = [f"{name}_outboundlink" for name in VERBS]
    client = client_of("ann", "view_outboundlink", *rights, enforce_csrf_checks=True)
    before = as_stored(world)

    assert submit(client, verb, world.link).status_code == 403
    assert as_stored(world) == before

    version = client.get(address(verb, world.link)).context["form"]["version"].value()
    token = next(m.value for name, m in client.cookies.items() if name.startswith("msh_csrf"))
    fields = {"version": version, "reason": "back", "csrfmiddlewaretoken": token}
    assert client.post(address(verb, world.link), fields).status_code == 302
    assert History.objects.filter(actor="ann", subject="link").count() == 1


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501])
def test_a_reason_is_required(operator: Client, reason: str) -> None:
    world = suspended_world()

    response = submit(operator, "resume", world.link, reason)

    assert response.status_code == 200  # the dialog again, with what is wrong
    assert "reason" in response.context["form"].errors
    assert world.link.state == "suspended"


@pytest.mark.parametrize(
    ("verb", "why"),
    [
        ("suspend", "it is already suspended"),
        ("send_now", "no message is waiting"),
        ("reset_retries", "no message is waiting"),
    ],
)
def test_an_impossible_verb_is_refused_with_a_sentence(
    operator: Client, verb: str, why: str
) -> None:
    world = suspended_world()
    before, history = as_stored(world), History.objects.count()

    response = submit(operator, verb, world.link)

    assert why in said(response)
    assert (as_stored(world), History.objects.count()) == (before, history)


def test_an_impossible_verb_says_so_before_the_button(operator: Client) -> None:
    world = waiting_world()

    page = operator.get(address("resume", world.link)).content.decode()

    assert f"Not possible now: the link to {world.there} is waiting." in page


@pytest.mark.parametrize("key", ["999999", "none", "9" * 40])
def test_a_link_that_is_not_there_is_not_found(operator: Client, key: str) -> None:
    where = reverse("admin:msh_outboundlink_resume", args=[key])

    assert operator.get(where).status_code == 404
    assert operator.post(where, {"reason": "x"}).status_code == 404


def test_the_dialog_says_what_it_does_to_this_message(operator: Client) -> None:
    world = suspended_world()

    page = operator.get(address("resume", world.link)).content.decode()

    assert f"Message 1 is sent to {world.there} again now, with the same" in page
    assert "retry counter restarts at 0 of 3" in page


def test_a_dialog_that_speaks_of_another_message_than_is_in_flight_does_nothing(
    operator: Client,
) -> None:
    world = waiting_world()
    fields = {"reason": "hurry", "version": "the message before"}

    response = operator.post(address("send_now", world.link), fields)

    assert "Nothing was done" in said(response)
    assert world.link.attempt == 1


def test_a_dialog_does_not_end_a_suspension_that_came_after_it(operator: Client) -> None:
    world = suspended_world()
    version = operator.get(address("resume", world.link)).context["form"]["version"].value()
    change_link.resume(world.there, Actor("bob", "they are back"))
    change_link.suspend(world.there, Actor("bob", "STOP: they restore a backup"))

    stale = {"reason": "they are back", "version": version}
    response = operator.post(address("resume", world.link), stale)

    assert "Nothing was done" in said(response)
    assert world.link.state == "suspended"
    page = operator.get(address("resume", world.link)).content.decode()
    assert "Suspended by bob: STOP: they restore a backup." in page


def test_send_now_names_the_attempt_that_it_goes_beside(operator: Client) -> None:
    world = waiting_world()
    Attempt.objects.update(ended_at=None)

    page = operator.get(address("send_now", world.link)).content.decode()

    assert "Attempt 1 has been in progress since" in page


def offered_on(page: str, link: OutboundLink) -> set[str]:
    return {verb for verb in VERBS if f'href="{address(verb, link)}"' in page}


@pytest.mark.parametrize("where", ["list", "page"])
def test_only_possible_verbs_are_offered(operator: Client, where: str) -> None:
    suspended = suspended_world().link
    waiting, late = waiting_world().link, waiting_world(retries_spent=1).link

    def page_of(link: OutboundLink) -> str:
        one = reverse("admin:msh_outboundlink_change", args=[link.pk])
        return operator.get(LIST if where == "list" else one).content.decode()

    assert offered_on(page_of(suspended), suspended) == {"resume"}
    assert offered_on(page_of(waiting), waiting) == {"send_now", "suspend"}
    assert offered_on(page_of(late), late) == {"send_now", "reset_retries", "suspend"}


@pytest.mark.parametrize("where", ["list", "page"])
def test_a_viewer_sees_no_button(viewer: Client, where: str) -> None:
    link = suspended_world().link
    one = reverse("admin:msh_outboundlink_change", args=[link.pk])

    response = viewer.get(LIST if where == "list" else one)

    assert response.status_code == 200
    assert offered_on(response.content.decode(), link) == set()


def test_resuming_after_a_late_acknowledgement_sends_the_queue(operator: Client) -> None:
    world = waiting_world()
    submit(operator, "suspend", world.link)
    second = world.submit()
    OutboundLink.objects.filter(pk=world.link.pk).update(in_flight=None, late_ack=True)

    page = operator.get(address("resume", world.link)).content.decode()
    submit(operator, "resume", world.link)

    assert "so none can be duplicated" in page
    assert world.link.in_flight == second


@pytest.mark.requirement("000-030", "000-033")
def test_a_late_acknowledgement_while_the_operator_types_is_told_and_one_click_goes_on(
    operator: Client,
) -> None:
    world, first = late_world(queued=2)
    opened = operator.get(address("resume", world.link)).context["form"]
    typed = {"version": opened["version"].value(), "reason": "their gateway is mended"}
    world.settle()  # carries the Acknowledgement, and nothing to a suspended partner
    assert (world.link.state, world.link.late_ack) == ("suspended", True)

    told = operator.post(address("resume", world.link), typed)

    assert world.link.state == "suspended"
    page = told.content.decode()
    assert "Nothing was done: the link has changed in the meantime." in page
    assert "The message in flight was acknowledged late and is complete." in page
    again = told.context["form"]
    assert again["reason"].value() == "their gateway is mended"
    shown = {field.name: field.value() for field in again}
    done = operator.post(address("resume", world.link), shown)
    assert done.status_code == 302
    assert "was acknowledged late and is complete" in said(done)
    assert "message 2, the first of the queue, is sent now" in said(done)
    assert OutboundMessage.objects.get(pk=first.pk).state == "acknowledged"
    assert world.settle() == 4  # two messages and their Acknowledgements; no copy of the first
    assert world.link.state == "idle"
    act = History.objects.get(event="OperatorResumed")
    assert act.detail == "their gateway is mended"


@pytest.mark.parametrize("verb", ["reset_retries", "send_now"])
def test_retries_that_are_spent_while_the_operator_types_lead_to_resume(
    operator: Client, verb: str
) -> None:
    world = waiting_world(retries_spent=1)
    opened = operator.get(address(verb, world.link)).context["form"]
    OutboundLink.objects.filter(pk=world.link.pk).update(retries_spent=3)
    Attempt.objects.update(ended_at=timezone.now())
    OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now() - timedelta(seconds=1))
    assert world.look() == []
    assert world.link.state == "suspended"

    typed = {"version": opened["version"].value(), "reason": "they are back & well"}
    told = operator.post(address(verb, world.link), typed)

    page = told.content.decode()
    assert "Nothing was done: the link has changed in the meantime." in page
    assert "is suspended" in page
    assert f"{address('resume', world.link)}?reason=they%20are%20back%20%26%20well" in page
    form = operator.get(address("resume", world.link), {"reason": typed["reason"]}).context["form"]
    assert form["reason"].value() == typed["reason"]
