"""Users are managed in the console."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

pytestmark = pytest.mark.django_db


def test_users_are_managed_in_the_console(administrator: Client) -> None:
    fields = {"username": "newcomer", "usable_password": "false", "reason": "new here"}
    add = reverse("admin:auth_user_add")
    assert administrator.get(add).status_code == 200

    assert administrator.post(add, fields).status_code == 302
    assert User.objects.filter(username="newcomer").exists()
