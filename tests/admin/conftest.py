"""Links in the states that operators act on, people with permissions, and actions by dialog."""

from collections.abc import Iterable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from msh import roles
from msh.models import OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from tests.flows.flying import Sky, make_sky
from tests.flows.world import World, make_world

admin.autodiscover()  # as `msh.urls` does: modules of tests list the pages
REFUSED = AttemptResult(
    AttemptOutcome.REFUSED, status=415, detail="415 Unsupported Media Type: no <b>thanks</b>"
)


def suspended_world(queued: int = 2) -> World:
    """The peer refused message 1 permanently; `queued` wait behind it."""
    world = make_world()
    world.submit()
    world.post(REFUSED)
    for _ in range(queued):
        world.submit()
    return world


def waiting_world(*, retries_spent: int = 0) -> World:
    """Message 1 was transmitted and waits for its Acknowledgement."""
    world = make_world()
    world.submit()
    world.post()
    OutboundLink.objects.filter(pk=world.link.pk).update(retries_spent=retries_spent)
    return world


def busy_world() -> World:
    """One message through to the end, one refused permanently, one queued."""
    world = make_world()
    world.submit()
    world.settle()
    world.submit()
    world.post(REFUSED)
    world.submit()
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
    """A link suspended although the partner has the message: `world.settle()` transmits the
    Acknowledgement. Returns that message too."""
    world = make_world()
    first, job = world.start()
    world.hand_over(job)
    world.end(job, REFUSED)
    for _ in range(queued):
        world.submit()
    return world, first


def submit(client: Client, where: str, reason: str = "agreed by telephone", **fields: str) -> Any:
    """Open the dialog of an action and send it."""
    opened = client.get(where)
    form = opened.context and opened.context.get("form")
    hidden = {field.name: field.value() or "" for field in form.hidden_fields()} if form else {}
    return client.post(where, {**hidden, "reason": reason, **fields})


def url(model: type[Model], page: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def path_of(row: Model, page: str = "change", *args: object) -> str:
    return url(type(row), page, row.pk, *args)


def page_of(client: Client, row: Model) -> str:
    """Its page, as text."""
    response = client.get(path_of(row))
    assert response.status_code == 200
    return response.content.decode()


def table_of(client: Client, row: Model, title: str) -> Any:
    """The table with these words in its title, on the page of a row."""
    tables = client.get(path_of(row)).context["tables"]
    (table,) = [one for one in tables if title in one.title]
    return table


def offered(client: Client, row: Model) -> list[str]:
    """The actions that its page offers."""
    return [offer.action.name for offer in client.get(path_of(row)).context["offers"]]


def address(action: str, row: Model) -> str:
    """Of the dialog of an action on this row."""
    return path_of(row, action)


def use(client: Client, action: str, row: Model, *reason: str, **fields: str) -> Any:
    return submit(client, address(action, row), *reason, **fields)


def messages_of(response: Any) -> str:
    """What the console says after an action."""
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


def client_with_role(name: str, role: Iterable[str]) -> Client:
    return client_of(name, *(permission.partition(".")[2] for permission in role))


@pytest.fixture
def world() -> World:
    """A pair of partners, of whom nothing was sent yet."""
    return make_world()


@pytest.fixture
def sky() -> Sky:
    """A partner to whom messages fly, of whom nothing was sent yet."""
    return make_sky()


@pytest.fixture
def operator() -> Client:
    return client_with_role("ann", roles.OPERATOR)


@pytest.fixture
def supervisor() -> Client:
    return client_with_role("sue", roles.SUPERVISOR)


@pytest.fixture
def viewer() -> Client:
    return client_with_role("vera", roles.VIEWER)


@pytest.fixture
def administrator() -> Client:
    user = User.objects.create_superuser("root")
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def reader() -> Client:
    """May see payloads."""
    return client_of(
        "rita",
        "view_outboundmessage",
        "view_inboundmessage",
        "view_payload_outboundmessage",
        "view_payload_inboundmessage",
    )
