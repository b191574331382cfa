"""Who sends a request, and how large its body may be."""

from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from msh.api.framework.access import TokenAuthentication
from msh.flows.operations import tokens
from msh.web import senders
from msh.web.limits import CONSOLE_BODY_LIMIT, UNKNOWN_BODY_LIMIT
from msh.web.senders import Sender
from partners.models import Credential, Partner, digest_of

pytestmark = pytest.mark.django_db


def environ(path: str, address: str = "192.0.2.1", **headers: str) -> dict[str, Any]:
    named = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    return {"PATH_INFO": path, "REMOTE_ADDR": address, **named}


@pytest.fixture
def partner() -> Partner:
    partner = Partner.objects.create(name="acme", uri="http://a/", allowed_networks="192.0.2.0/24")
    Credential.objects.create(partner=partner, sha256=digest_of("senders-token"))
    return partner


def test_a_partner_is_known_from_the_second_time_on_without_the_database(partner: Partner) -> None:
    shown = environ("/ebxml/", authorization="Bearer senders-token")
    sender = senders.of_partner(partner.pk)
    assert senders.admit(shown, 1) is None
    assert senders.find(shown) == (sender, settings.MSH_MESSAGE_LIMIT)
    assert senders.admit(shown, 1) == (sender, settings.MSH_MESSAGE_LIMIT)
    assert senders.sender_of(shown) == sender


def test_partner_from_another_network_is_unknown(partner: Partner) -> None:
    near = environ("/ebxml/", authorization="Bearer senders-token")
    far = environ("/ebxml/", "198.51.100.1", authorization="Bearer senders-token")
    assert senders.find(far) is None
    assert senders.find(near) is not None
    assert senders.admit(far, 1) is None
    assert senders.sender_of(far) == Sender("address 198.51.100.1")


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("/api/v1/messages", settings.MSH_MESSAGE_LIMIT * 4 // 3 + (1 << 20)),
        ("/api/v1/messages/bulk", 32 << 20),
        ("/api/v1/deliveries/take", 64 << 10),
        ("/api/nothing", 0),
    ],
)
def test_a_token_sends_what_its_address_takes(path: str, limit: int) -> None:
    token, secret = tokens.make("shop", ["send"])
    shown = environ(path, authorization=f"Bearer {secret}")
    assert senders.admit(shown, 1) is None
    assert senders.find(shown) == (Sender(f"token {token.pk}", known=True), limit)
    assert senders.admit(shown, 1) == (Sender(f"token {token.pk}", known=True), limit)


def test_a_token_is_forgotten_with_its_user() -> None:
    token, secret = tokens.make("shop", ["send"])
    shown = f"Bearer {secret}"
    assert TokenAuthentication.find(shown) == token
    User.objects.update(is_active=False)
    assert TokenAuthentication.find(shown) is None
    assert TokenAuthentication.cached(shown) is None


def test_logged_in_user_may_send_a_large_form(settings: Settings) -> None:
    user = User.objects.create_superuser("admin")
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].OutputString()
    shown = environ("/admin/", cookie=cookie.partition(";")[0])
    assert senders.admit(shown, UNKNOWN_BODY_LIMIT + 1) is None
    assert senders.find(shown) == (Sender(f"user {user.pk}", known=True), CONSOLE_BODY_LIMIT)


@pytest.mark.parametrize("cookie", ["", "x=y", "msh_session=", "=;=", 'a="'])
def test_other_cookies_identify_nobody(cookie: str) -> None:
    assert senders.find(environ("/admin/", cookie=cookie)) is None


def test_a_log_in_form_needs_no_database() -> None:
    form = environ("/admin/login/")
    assert senders.admit(form, UNKNOWN_BODY_LIMIT) == (
        Sender("address 192.0.2.1"),
        UNKNOWN_BODY_LIMIT,
    )
