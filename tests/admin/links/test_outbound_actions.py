"""Resume, suspend, reset retries, send now: what they do, and what does nothing."""

import hashlib
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from msh.models import History, Incident, OutboundLink, OutboundMessage
from tests.admin.conftest import (
    address,
    messages_of,
    suspended_world,
    use,
    waiting_world,
)
from tests.flows.world import World

pytestmark = pytest.mark.django_db

ACTIONS = ("resume", "send_now", "reset_retries", "suspend")

LIST = reverse("admin:msh_outboundlink_changelist")


def as_stored(world: World) -> dict[str, Any]:
    return {**OutboundLink.objects.filter(partner=world.there).values().get()}


@pytest.mark.requirement("000-033")
def test_resume_sends_the_same_bytes_again_with_a_fresh_retry_counter(operator: Client) -> None:
    world = suspended_world()
    OutboundLink.objects.filter(pk=world.link.pk).update(retries_spent=2)
    first = OutboundMessage.objects.get(state="in_flight")

    response = use(operator, "resume", world.link)

    assert response.status_code == 302
    assert messages_of(response).endswith(
        "resumed. Message 1 is sent again with the same bytes, then the queue."
    )
    assert (world.link.state, world.link.retries_spent) == ("waiting", 0)
    (again,) = world.poll()
    assert hashlib.sha256(again.body).digest() == bytes(first.body_sha256 or b"")
    assert world.link.attempt == 2


def test_resume_keeps_who_and_why(operator: Client) -> None:
    world = suspended_world()

    use(operator, "resume", world.link, "partner fixed its gateway")

    act = History.objects.filter(subject="link", event="OperatorResumed").get()
    assert (act.actor, act.from_state, act.to_state) == ("ann", "suspended", "waiting")
    assert act.detail == "partner fixed its gateway"
    incident = Incident.objects.get()
    assert (incident.resolved_by, incident.resolution) == ("ann", "partner fixed its gateway")
    assert incident.resolved_at is not None


def test_suspend_keeps_the_message_in_flight(operator: Client) -> None:
    world = waiting_world()

    response = use(operator, "suspend", world.link, "their data centre moves")

    assert "Nothing is sent until it is resumed." in messages_of(response)
    assert (world.link.suspended_for, world.link.suspended_detail) == (
        "operator",
        "ann: their data centre moves",
    )
    assert world.link.in_flight is not None


def test_reset_retries_keeps_the_deadline(operator: Client) -> None:
    world = waiting_world(retries_spent=3)
    due = world.link.due

    use(operator, "reset_retries", world.link)

    assert (world.link.retries_spent, world.link.due) == (0, due)
    act = History.objects.get(event="RetriesReset")
    assert act.detail == "retries spent 3 → 0; agreed by telephone"


def test_send_now_sends_another_copy_and_uses_no_retry(operator: Client) -> None:
    world = waiting_world()
    assert world.poll() == []

    use(operator, "send_now", world.link)

    assert len(world.poll()) == 1
    assert (world.link.attempt, world.link.retries_spent) == (2, 0)


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501])
def test_a_reason_is_required(operator: Client, reason: str) -> None:
    world = suspended_world()

    response = use(operator, "resume", world.link, reason)

    assert response.status_code == 200  # the dialog again, with what is wrong
    assert "reason" in response.context["form"].errors
    assert world.link.state == "suspended"


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ("suspend", "it is already suspended"),
        ("send_now", "no message is waiting"),
        ("reset_retries", "no message is waiting"),
    ],
)
def test_an_impossible_action_is_refused_with_a_sentence(
    operator: Client, action: str, why: str
) -> None:
    world = suspended_world()
    before, history = as_stored(world), History.objects.count()

    response = use(operator, action, world.link)

    assert why in messages_of(response)
    assert (as_stored(world), History.objects.count()) == (before, history)


def test_impossible_action_has_no_button(operator: Client) -> None:
    world = waiting_world()

    page = operator.get(address("resume", world.link)).content.decode()

    assert f"Not possible now: the link to {world.there} is waiting." in page


@pytest.mark.parametrize("key", ["999999", "none", "9" * 40])
def test_unknown_link_is_not_found(operator: Client, key: str) -> None:
    where = reverse("admin:msh_outboundlink_resume", args=[key])

    assert operator.get(where).status_code == 404
    assert operator.post(where, {"reason": "x"}).status_code == 404


def test_the_dialog_says_what_it_does_to_this_message(operator: Client) -> None:
    world = suspended_world()

    page = operator.get(address("resume", world.link)).content.decode()

    assert f"Message 1 is sent to {world.there} again now, with the same" in page
    assert "retry counter restarts at 0 of 3" in page


def offered_on(page: str, link: OutboundLink) -> set[str]:
    return {action for action in ACTIONS if f'href="{address(action, link)}"' in page}


@pytest.mark.parametrize("where", ["list", "page"])
def test_only_possible_actions_are_offered(operator: Client, where: str) -> None:
    suspended = suspended_world().link
    waiting, late = waiting_world().link, waiting_world(retries_spent=1).link

    def page_of(link: OutboundLink) -> str:
        one = reverse("admin:msh_outboundlink_change", args=[link.pk])
        return operator.get(LIST if where == "list" else one).content.decode()

    assert offered_on(page_of(suspended), suspended) == {"resume"}
    assert offered_on(page_of(waiting), waiting) == {"send_now", "suspend"}
    assert offered_on(page_of(late), late) == {"send_now", "reset_retries", "suspend"}


def test_a_viewer_sees_no_button_in_the_list(viewer: Client) -> None:
    link = suspended_world().link

    assert offered_on(viewer.get(LIST).content.decode(), link) == set()
