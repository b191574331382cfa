"""Users are managed in the console."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from msh import roles
from msh.models import SettingChange, is_machine
from tests.admin.conftest import client_with_role

pytestmark = pytest.mark.django_db


def test_users_are_managed_in_the_console(administrator: Client) -> None:
    fields = {"username": "newcomer", "usable_password": "false", "reason": "new here"}
    add = reverse("admin:auth_user_add")
    assert administrator.get(add).status_code == 200

    assert administrator.post(add, fields).status_code == 302
    assert User.objects.filter(username="newcomer").exists()


@pytest.mark.parametrize(
    "query", ["kind=machine", "_changelist_filters=kind%3Dmachine%26q%3Dbilling"]
)
def test_a_machine_user_is_added_without_a_password(administrator: Client, query: str) -> None:
    """F30: the form for a machine asked for a password, and made a person."""
    add = f"{reverse('admin:auth_user_add')}?{query}"
    page = administrator.get(add)
    assert {*page.context["adminform"].form.fields} == {"username", "reason"}
    assert "acts by its API tokens" in page.content.decode()

    assert administrator.post(add, {"username": "billing", "reason": "new"}).status_code == 302

    user = User.objects.get(username="billing")
    assert is_machine(user)
    entry = SettingChange.objects.get(name="billing")
    assert (entry.actor, entry.reason) == ("root", "new")


def test_only_who_may_add_users_adds_a_machine() -> None:
    add = f"{reverse('admin:auth_user_add')}?kind=machine"
    for role in ("Viewer", "Operator", "Supervisor"):
        client = client_with_role(role, roles.ROLES[role])
        assert client.post(add, {"username": "billing", "reason": "new"}).status_code == 403
    assert not User.objects.filter(username="billing").exists()
