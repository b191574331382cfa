"""What holds for every action of every page: it is offered to those who may use it, GET changes
nothing, and only a POST with the CSRF token of a user who has all permissions acts."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.admin.framework.actions import ActionDialog, ActionsAdmin
from msh.flows.operations import resynchronise
from msh.flows.operations.many import bulk_jobs
from msh.flows.receiving.link_status import NoStatus
from msh.models import (
    ActRequest,
    ConsumerKind,
    Delivery,
    InboundConversation,
    MaintenanceWindow,
    OutboundConversation,
)
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_links
from tests.admin.conftest import client_of, page_of, path_of, suspended_world
from tests.delivery.desk import consumer, receive
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

ACTIONS = [
    (model, action)
    for model, page in admin.site._registry.items()
    if isinstance(page, ActionsAdmin)
    for action in page.operator_actions
]

FILLED_IN = {"reason": "agreed by telephone", "verdict": "unknown", "number": "7", "version": ""}


@pytest.fixture(autouse=True)
def a_row_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspended link with a queue, an incident, a parked delivery, conversations, a job."""

    def silent(*_: object) -> None:
        raise NoStatus("It does not say how its link is.")

    monkeypatch.setattr(resynchronise, "enquire", silent)
    world = suspended_world()
    open_links(world.there)
    (message,) = receive(make_world(), 1)
    now = timezone.now()
    Delivery.objects.create(
        consumer=consumer(ConsumerKind.PULL), message=message, state="parked", attempt=1,
        started_at=now, ended_at=now,
    )  # fmt: skip
    talk = {"conversation_id": "talk"}
    OutboundConversation.objects.create(
        link=world.link, agreement=world.agreement, used_at=now, **talk
    )
    InboundConversation.objects.create(
        link=message.link, agreement=message.agreement, last_at=now, **talk
    )
    ActRequest.objects.create(
        verb="reset", act="reset_sequence", parameters={"partner": world.there.pk}, facts="",
        text="", asked_by="ann", reason="", until=now + timedelta(hours=1),
    )  # fmt: skip
    MaintenanceWindow.objects.create(
        partner=world.there, starts_at=now + timedelta(hours=1), ends_at=now + timedelta(hours=2),
        reason="they move", planned_by="ann",
    )  # fmt: skip
    since = timezone.now() - timedelta(hours=1)
    bulk_jobs.start("resume", since, None, Actor("ann", "they are back"))


def addresses() -> Iterator[tuple[str, ActionDialog[Any], str]]:
    """Name, action and address of each dialog, on a row."""
    for model, action in ACTIONS:
        meta, row = model._meta, model._default_manager.latest("pk")
        where = reverse(f"admin:{meta.app_label}_{meta.model_name}_{action.name}", args=[row.pk])
        yield f"{meta.model_name} {action.name}", action, where


def everything() -> dict[str, list[Any]]:
    """All rows of ours."""
    return {
        model.__name__: list(model._default_manager.order_by("pk").values())
        for app in ("msh", "partners")
        for model in apps.get_app_config(app).get_models()
    }


def test_there_are_actions_on_every_kind_of_row() -> None:
    names = {model.__name__ for model, _ in ACTIONS}
    assert names == {
        "OutboundLink", "InboundLink", "OutboundMessage", "Delivery", "Incident", "BulkJob",
        "Agreement", "OutboundConversation", "InboundConversation", "ActRequest",
        "MaintenanceWindow", "Signal",
    }  # fmt: skip
    assert len(ACTIONS) > 25


def test_get_changes_nothing(administrator: Client) -> None:
    before = everything()

    answers = {name: administrator.get(where).status_code for name, _, where in addresses()}

    assert {name: status for name, status in answers.items() if status != 200} == {}
    assert everything() == before


def offered_to(client: Client) -> set[str]:
    """The actions to whose dialogs the pages of their rows lead."""
    rows = {model: model._default_manager.latest("pk") for model, _ in ACTIONS}
    pages = {model: page_of(client, row) for model, row in rows.items()}
    return {
        f"{model.__name__} {action.name}"
        for model, action in ACTIONS
        if path_of(rows[model], action.name) in pages[model]
    }


def test_no_action_is_offered_to_who_may_only_look(administrator: Client, viewer: Client) -> None:
    assert len(offered_to(administrator)) > 15
    assert offered_to(viewer) == set()


def test_a_stranger_is_sent_to_the_log_in(client: Client) -> None:
    before = everything()

    answers = {name: client.post(where, FILLED_IN) for name, _, where in addresses()}

    elsewhere = {name: one.headers.get("Location", "") for name, one in answers.items()}
    login = reverse("admin:login")
    assert {name: to for name, to in elsewhere.items() if not to.startswith(login)} == {}
    assert everything() == before


def test_without_the_csrf_token_nothing_is_done(administrator: Client) -> None:
    administrator.handler.enforce_csrf_checks = True
    before = everything()

    answers = {
        name: administrator.post(where, FILLED_IN).status_code for name, _, where in addresses()
    }

    assert {name: status for name, status in answers.items() if status != 403} == {}
    assert everything() == before


def test_each_action_takes_every_one_of_its_permissions() -> None:
    """Somebody has all of the others. A dialog that is only looked at asks for the same ones."""
    before = everything()
    asked = [
        (name, where, missing)
        for name, action, where in addresses()
        for missing in action.action.permissions
    ]
    permissions = (one for _, dialog, _ in addresses() for one in dialog.action.permissions)
    granted = {one.partition(".")[2] for one in permissions}
    clients: dict[str, Client] = {}
    answers = {}
    for name, where, missing in asked:
        codename = missing.partition(".")[2]
        if codename not in clients:
            clients[codename] = client_of(f"no-{codename}"[:150], *(granted - {codename}))
        answers[f"{name} without {missing}"] = clients[codename].post(where, FILLED_IN).status_code
    nobody = client_of("nobody")
    answers |= {f"{name} shown": nobody.get(where).status_code for name, _, where in addresses()}

    assert {name: status for name, status in answers.items() if status != 403} == {}
    assert everything() == before
