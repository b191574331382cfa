"""A suspended lane, and the people who look at it."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from msh.models import OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from tests.flows.world import World, make_world

REFUSED = AttemptResult(
    AttemptOutcome.REFUSED, status=415, detail="415 Unsupported Media Type: no <b>thanks</b>"
)


def suspended_world(queued: int = 2) -> World:
    """The peer refused message 1 for good; `queued` wait behind it."""
    world = make_world()
    world.submit()
    (job,) = world.look()
    world.end(job, REFUSED)
    for _ in range(queued):
        world.submit()
    return world


def waiting_world(*, retries_spent: int = 0) -> World:
    """Message 1 was carried and waits for its Acknowledgement."""
    world = make_world()
    world.submit()
    (job,) = world.look()
    world.end(job)
    OutboundLink.objects.filter(pk=world.link.pk).update(retries_spent=retries_spent)
    return world


def client_of(name: str, *codenames: str, enforce_csrf_checks: bool = False) -> Client:
    """A browser in which a member of staff with these permissions is logged in."""
    user = User.objects.create_user(name, is_staff=True)
    permissions = Permission.objects.filter(codename__in=codenames)
    assert len(permissions) == len(codenames)
    user.user_permissions.set(permissions)
    client = Client(enforce_csrf_checks=enforce_csrf_checks)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def late_world(queued: int = 1) -> tuple[World, OutboundMessage]:
    """A suspended partner that has what it did not acknowledge: `world.settle()` carries the
    Acknowledgement. And that message."""
    world = make_world()
    first = world.submit()
    (job,) = world.look()
    world.hand_over(job)
    world.end(job, REFUSED)
    for _ in range(queued):
        world.submit()
    return world, first


def submit(client: Client, where: str, reason: str = "agreed by telephone", **fields: str) -> Any:
    """Open the dialog of a verb and send it."""
    opened = client.get(where)
    form = opened.context and opened.context.get("form")
    hidden = {field.name: field.value() or "" for field in form.hidden_fields()} if form else {}
    return client.post(where, {**hidden, "reason": reason, **fields})


VERBS = ("resume", "send_now", "reset_retries", "suspend")


@pytest.fixture
def operator() -> Client:
    """May look at links and use every verb."""
    return client_of("ann", "view_outboundlink", *(f"{verb}_outboundlink" for verb in VERBS))


@pytest.fixture
def viewer() -> Client:
    """May look at links and do nothing."""
    return client_of("vera", "view_outboundlink")


@pytest.fixture
def administrator() -> Client:
    user = User.objects.create_superuser("root")
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client
