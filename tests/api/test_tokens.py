"""Tokens: their end, the networks they are used from, their last use, and their machine users."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from msh import roles
from msh.health import msh_version
from msh.models import ApiToken, ConsumerKind
from msh.web.senders import find
from tests.admin.conftest import client_with_role
from tests.api.application import Application
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem, made_in_console
from tests.delivery.desk import consumer
from tests.test_health import answer

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def test_a_token_that_has_expired_is_refused_and_says_so(token: Tokens) -> None:
    shop = token("read")
    ApiToken.objects.update(expires=timezone.now() + timedelta(minutes=1))
    assert shop.get("messages").status == 200
    ApiToken.objects.update(expires=timezone.now())
    assert_problem(shop.get("messages"), 401, f"Token {shop.name} expired at", "a new one")


def test_a_token_is_accepted_from_its_networks_only(token: Tokens) -> None:
    shop = token("read")
    ApiToken.objects.update(networks="10.0.0.0/8, 127.0.0.1")
    assert shop.get("messages").status == 200
    ApiToken.objects.update(networks="10.0.0.0/8")
    assert_problem(shop.get("messages"), 401, "is not accepted from your address 127.0.0.1")


def test_a_refused_token_gets_no_room_for_its_body(token: Tokens) -> None:
    shop = token("send")
    asked = {"PATH_INFO": "/api/v1/messages", "REMOTE_ADDR": "127.0.0.1"}
    asked["HTTP_AUTHORIZATION"] = f"Bearer {shop.secret}"
    admitted = find(asked)
    assert admitted is not None
    assert admitted.sender.known
    ApiToken.objects.update(expires=timezone.now())
    assert find(asked) is None


def test_last_use_is_written_once_a_minute(token: Tokens) -> None:
    shop = token("read")

    before = timezone.now()
    first, second = used(shop), used(shop)
    assert first is not None
    assert abs(first - before) < timedelta(minutes=1)
    assert first == second
    ApiToken.objects.update(last_used=before - timedelta(seconds=61))
    later = used(shop)
    assert later is not None
    assert later > before - timedelta(seconds=1)


def used(application: Application) -> Any:
    assert application.get("messages").status == 200
    return ApiToken.objects.get().last_used


def test_the_command_gives_it_an_end_and_networks(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("token", "spark", "--days", "30", "--networks", "10.0.0.0/8", "--json")
    capsys.readouterr()
    call_command("token", "--json")
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["networks"] == "10.0.0.0/8"
    assert listed["last_used"] is None
    expires = ApiToken.objects.get().expires
    assert expires is not None
    assert timedelta(days=29) < expires - timezone.now() < timedelta(days=31)
    for wrong in (["--days", "0"], ["--networks", "10.0.0.1/8"]):
        with pytest.raises(CommandError):
            call_command("token", "other", *wrong)


def test_an_administrator_makes_a_machine_user_with_its_token() -> None:
    client = client_with_role("root", roles.ADMINISTRATOR)
    User.objects.create_user("shop", password="a person's", is_staff=True)
    page = made_in_console(client, name="shop", scopes=["read"])
    assert "A person has this name" in page
    page = made_in_console(client, name="erp", scopes=["read"], networks="127.0.0.1")
    token = ApiToken.objects.get()
    assert (token.user.username, token.user.has_usable_password()) == ("erp", False)
    secret = page.partition("Token erp: ")[2].split()[0]
    assert Application(secret).get("messages").status == 200
    row = client.get("/admin/msh/apitoken/").content.decode()
    assert "machine" in row
    assert secret not in row
    assert secret not in client.get(f"/admin/msh/apitoken/{token.pk}/change/").content.decode()
    machines = client.get("/admin/auth/user/?kind=machine").content.decode()
    assert "erp" in machines
    assert ">shop<" not in machines
    assert ">shop<" in client.get("/admin/auth/user/?kind=person").content.decode()


def test_who_may_not_add_users_makes_tokens_for_himself() -> None:
    granted = {"msh.add_apitoken", "msh.view_apitoken", *roles.VIEWER}
    client = client_with_role("ann", granted)
    assert "Choose your own user" in made_in_console(client, name="erp", scopes=["read"])
    assert not User.objects.filter(username="erp").exists()


def test_the_end_of_a_token_is_near(administrator: Client, token: Tokens) -> None:
    shop = token("read")
    for end, shown in ((20 * DAY, False), (3 * DAY, True), (-DAY, True), (-20 * DAY, False)):
        ApiToken.objects.update(expires=timezone.now() + end)
        page = administrator.get("/admin/").content.decode()
        assert (shop.name in page) is shown, end
    ApiToken.objects.update(expires=timezone.now() + 3 * DAY)
    assert answer()[1]["tokens"] == "expiring within 14 days"
    assert "in 2 d 23 h" in administrator.get("/admin/msh/apitoken/").content.decode()


def test_a_token_says_what_it_is_good_for(token: Tokens, settings: Any) -> None:
    settings.MSH_API_RATE = "50/minute"
    settings.MSH_MESSAGE_LIMIT = 7_000
    consumer(ConsumerKind.PULL, name="orders")
    application = token("send", "consume")
    end = timezone.now() + DAY
    ApiToken.objects.update(expires=end, networks="127.0.0.0/8 10.0.0.0/8")
    said = application.get("token").json
    assert said == {
        "name": application.name,
        "user": application.name,
        "scopes": ["send", "consume"],
        "missing_permissions": [],
        "expires": end.isoformat().replace("+00:00", "Z"),
        "networks": ["127.0.0.0/8", "10.0.0.0/8"],
        "consumers": ["orders"],
        "partners": [],
        "limits": {
            "requests": 50,
            "seconds": 60,
            "message_bytes": 7_000,
            "bulk_lines": 5_000,
            "bulk_bytes": 32 * 1024 * 1024,
            "page_rows": 1_000,
        },
        "version": msh_version(),
    }


def test_a_token_says_what_its_user_lacks(token: Tokens, settings: Any) -> None:
    settings.MSH_API_RATE = ""
    application = token("read", "send")
    user = User.objects.get(username=application.name)
    user.user_permissions.remove(Permission.objects.get(codename="view_inboundmessage"))
    said = application.get("token").json
    assert said["scopes"] == ["read", "send"]
    assert said["missing_permissions"] == ["msh.view_inboundmessage"]
    assert said["expires"] is None
    assert (said["limits"]["requests"], said["limits"]["seconds"]) == (None, None)


def test_nobody_is_told_of_a_token_that_is_none() -> None:
    assert Application("guessed").get("token").status == 401
