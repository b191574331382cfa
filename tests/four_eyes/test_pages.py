"""The console: an act is asked for, seen by a second person, and confirmed or refused."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.models import ActRequest, History
from tests.admin.conftest import address, messages_of, supervisor, suspended_world, use, viewer
from tests.flows.world import World, make_world
from tests.four_eyes.conftest import user

__all__ = ["supervisor", "viewer"]
pytestmark = pytest.mark.django_db


def browser_of(name: str) -> Client:
    client = Client()
    client.force_login(user(name), backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def kim(rule: Any) -> Client:
    return browser_of("kim")


@pytest.fixture
def lee(rule: Any) -> Client:
    return browser_of("lee")


def asked(client: Client) -> tuple[World, ActRequest]:
    world = make_world()
    world.submit()
    world.settle()
    assert "Not done yet: a second person must" in messages_of(
        use(client, "reset_sequence", world.link)
    )
    return world, ActRequest.objects.get()


def test_from_the_dialog_to_the_confirmation(kim: Client, lee: Client) -> None:
    world, row = asked(kim)
    where = address("change", row)
    for page in (
        reverse("admin:index"),
        address("change", world.link),
        reverse("partner_page", args=[world.there.pk]),
        reverse("admin:msh_actrequest_changelist"),
        where,
    ):
        content = lee.get(page).content.decode()
        assert "gets number 1 instead of 2" in content, page
        assert where in content

    done = use(lee, "confirm", row, "seen it too")

    assert "Done: the next message gets number 1." in messages_of(done)
    assert world.link.next_number == 1
    assert History.objects.get(event="SecondPersonConfirmed").actor == "lee"
    assert "gets number 1 instead of 2" not in lee.get(reverse("admin:index")).content.decode()
    assert "the request is confirmed" in lee.get(address("refuse", row)).content.decode()


def test_buttons_are_for_who_may_use_them(kim: Client, lee: Client, viewer: Client) -> None:
    world, row = asked(kim)

    def offered(client: Client) -> list[str]:
        context = client.get(address("change", row)).context
        return [offer.action.name for offer in context["offers"]]

    assert (offered(kim), offered(lee), offered(viewer)) == (
        ["withdraw"],
        ["confirm", "refuse"],
        [],
    )
    assert "your own request" in messages_of(use(kim, "confirm", row))
    assert viewer.get(address("confirm", row)).status_code == 403
    assert "Refused." in messages_of(use(lee, "refuse", row))
    assert world.link.next_number == 2


def test_who_may_not_confirm_learns_which_role_may(kim: Client, viewer: Client) -> None:
    _, row = asked(kim)
    page = viewer.get(address("change", row)).content.decode()
    assert "ask a user with the role Supervisor" in page
    assert "msh.reset_sequence" not in page


def test_a_request_that_has_lapsed_says_so(kim: Client, lee: Client) -> None:
    _, row = asked(kim)
    ActRequest.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert "the request is lapsed" in lee.get(address("confirm", row)).content.decode()
    assert "lapsed" in lee.get(reverse("admin:msh_actrequest_changelist")).content.decode()


def test_the_dialog_says_what_happens_and_offers_to_go_alone(kim: Client, rule: Any) -> None:
    world = suspended_world(queued=0)
    dialog = kim.get(address("cancel", world.link))
    assert "With the verdict unknown, a second person must" in dialog.content.decode()
    assert "alone" not in dialog.context["form"].fields
    rule.MSH_ACT_ALONE = True
    assert "alone" in kim.get(address("cancel", world.link)).context["form"].fields
    done = use(kim, "cancel", world.link, verdict="unknown", alone="nobody answers")
    assert "message cancelled" in messages_of(done)
    assert History.objects.filter(event="WentAheadAlone", actor="kim").exists()


def test_without_a_rule_nothing_of_it_is_shown(supervisor: Client) -> None:
    world = suspended_world(queued=0)
    page = supervisor.get(address("cancel", world.link)).content.decode()
    assert "second person" not in page
    assert "Four-eyes requests" not in supervisor.get(reverse("admin:index")).content.decode()
