"""The roles of msh/roles.py: who may view, act, cancel messages, configure."""

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from msh.alerts.models import OperatorNotice
from msh.models import History, IncidentNote
from tests.admin.conftest import suspended_world

pytestmark = pytest.mark.django_db

SENDING = {"resume", "suspend", "send_now", "reset_retries"}

MENDING = {"cancel", "reset_sequence", "resynchronise", "rewind"}

MAY = {
    "Viewer": set(),
    "Operator": SENDING,
    "Supervisor": SENDING | MENDING,
    "Administrator": SENDING | MENDING,
}


def member(role: str) -> Client:
    user = User.objects.create_user(role.lower(), is_staff=True)
    user.groups.set([Group.objects.get(name=role)])
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.mark.parametrize("role", MAY)
def test_a_role_has_its_actions_and_no_others(role: str) -> None:
    link = suspended_world().link
    client = member(role)

    answers = {
        action: client.get(reverse(f"admin:msh_outboundlink_{action}", args=[link.pk])).status_code
        for action in SENDING | MENDING
    }

    assert {action for action, status in answers.items() if status == 200} == MAY[role]
    assert {answers[action] for action in answers.keys() - MAY[role]} <= {403}


@pytest.mark.parametrize(
    ("role", "sees"),
    [("Viewer", False), ("Operator", True), ("Supervisor", True), ("Administrator", True)],
)
def test_roles_grant_payloads_separately(role: str, sees: bool) -> None:
    held = Group.objects.get(name=role).permissions.values_list("codename", flat=True)
    for direction in ("inbound", "outbound"):
        assert (f"view_payload_{direction}message" in held) == sees


@pytest.mark.parametrize(
    ("role", "configures"), [("Viewer", False), ("Operator", False), ("Supervisor", False),
                             ("Administrator", True)],
)  # fmt: skip
def test_partners_are_configured_by_administrators(role: str, configures: bool) -> None:
    answer = member(role).get(reverse("admin:partners_partner_add"))

    assert answer.status_code == (200 if configures else 403)


@pytest.mark.parametrize("role", MAY)
def test_nobody_may_delete_or_change_what_was_recorded(role: str) -> None:
    world = suspended_world()
    row = History.objects.filter(partner=world.there).latest("pk")
    held = Group.objects.get(name=role).permissions.values_list("content_type__model", "codename")
    recorded = {model._meta.model_name for model in (History, IncidentNote, OperatorNotice)}

    assert not [code for model, code in held if model in recorded and not code.startswith("view_")]
    client = member(role)
    for page in ("change", "delete"):
        where = reverse(f"admin:msh_history_{page}", args=[row.pk])
        assert client.post(where, {"post": "yes"}).status_code == 403
    assert History.objects.filter(pk=row.pk).exists()
