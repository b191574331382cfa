"""What a user sees when a page cannot be shown: plain words, and what to do."""

from typing import Any, NoReturn
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError, connection
from django.test import Client, override_settings

from msh import roles
from msh.models import OutboundLink
from tests.admin.conftest import address, client_with_role, suspended_world

pytestmark = pytest.mark.django_db

WHY = "agreed with Zoë & Co. by telephone"
LOGIN = "/admin/login/"


def text(response: Any) -> str:
    return " ".join(response.content.decode().split())


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_without_a_database_a_page_says_so_and_asks_again(error: type[Exception]) -> None:
    client = Client(raise_request_exception=False)

    def fail(*_: Any) -> NoReturn:
        raise error("connection refused")

    with connection.execute_wrapper(fail):
        seen = client.get("/admin/msh/outboundlink/", headers={"cookie": session_cookie()})
        sent = client.post(LOGIN, {"username": "a", "password": "b"})

    assert (seen.status_code, sent.status_code) == (503, 503)
    assert "The database does not answer" in text(seen)
    assert "No message is lost" in text(seen)
    assert 'http-equiv="refresh"' in text(seen)
    assert 'http-equiv="refresh"' not in text(sent)  # it would send nothing again
    assert 'href="/health/ready"' in text(seen)


def session_cookie() -> str:
    return f"{settings.SESSION_COOKIE_NAME}=0123456789abcdef0123456789abcdef"


def test_a_defect_of_the_console_has_a_page_without_the_database() -> None:
    client = Client(raise_request_exception=False)

    def fail(*_: Any) -> NoReturn:
        raise RuntimeError("boom")

    with connection.execute_wrapper(fail):
        page = client.get("/admin/", headers={"cookie": session_cookie()})

    assert page.status_code == 500
    assert "The console has an error" in text(page)
    assert "boom" not in text(page)


def test_a_request_that_is_refused_before_a_view_has_a_page() -> None:
    page = Client().get("/admin/", headers={"host": "elsewhere.example"})

    assert page.status_code == 400
    assert "elsewhere.example" in text(page)
    assert "ALLOWED_HOSTS" in text(page)


def test_a_method_that_a_page_does_not_have(administrator: Client) -> None:
    page = administrator.get("/admin/logout/")

    assert page.status_code == 405
    assert "cannot be opened directly" in text(page)
    assert page.headers["Allow"]


def test_a_dialog_of_an_older_log_in_is_shown_again_with_its_reason() -> None:
    link = suspended_world().link
    client = client_with_role("ann", roles.OPERATOR)
    client.handler.enforce_csrf_checks = True
    where = address("resume", link)
    client.get(where)
    old = "a" * 64

    response = client.post(where, {"reason": WHY, "csrfmiddlewaretoken": old}, follow=True)

    assert response.redirect_chain[0][1] == 302
    assert response.context["form"]["reason"].value() == WHY
    assert "Nothing was done" in text(response)
    assert link_state(link) == "suspended"


def link_state(link: OutboundLink) -> str:
    link.refresh_from_db()
    return link.state


def test_a_browser_without_cookies_is_told_so() -> None:
    client = Client(enforce_csrf_checks=True)

    page = client.post(LOGIN, {"username": "ann", "password": "x"})

    assert page.status_code == 403
    assert "Allow cookies" in text(page)


@override_settings(CSRF_TRUSTED_ORIGINS=[])
def test_a_form_from_another_address_names_the_setting() -> None:
    client = Client(enforce_csrf_checks=True)
    client.get(LOGIN)

    page = client.post(LOGIN, {}, headers={"origin": "https://console.example"})

    assert page.status_code == 403
    assert "MSH_CONSOLE_URL" in text(page)


def test_after_an_expired_session_the_dialog_has_its_reason() -> None:
    link = suspended_world().link
    client = client_with_role("ann", roles.OPERATOR)
    where = address("resume", link)
    client.get(where)
    client.session.flush()

    response = client.post(where, {"reason": WHY, "version": ""})

    assert response.status_code == 302
    there = urlsplit(response.headers["Location"])
    assert there.path == LOGIN
    (back,) = parse_qs(there.query)["next"]
    user = User.objects.get(username="ann")
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    assert client.get(back).context["form"]["reason"].value() == WHY


def test_a_lockout_says_until_when_and_who_can_end_it() -> None:
    client = Client()
    for _ in range(5):
        page = client.post(LOGIN, {"username": "ann", "password": "wrong"})

    assert page.status_code == 429
    assert "15 minutes" in text(page)
    assert "UTC" in text(page)
    assert f'href="{LOGIN}"' in text(page)
    assert page.headers["Retry-After"] == "900"


def test_a_form_of_the_configuration_has_its_reason_again(administrator: Client) -> None:
    partner = suspended_world().there
    where = f"/admin/partners/partner/{partner.pk}/change/"

    page = administrator.get(where, {"reason": WHY})

    assert page.context["adminform"].form["reason"].value() == WHY
