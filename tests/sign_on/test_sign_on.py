"""Log-in at an identity provider on loopback; Django's client takes the place of a browser."""

import time
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from msh.models import SettingChange
from tests.sign_on.provider import Provider, new_key

pytestmark = pytest.mark.django_db


def sign_on(client: Client, start: str = "/admin/sign-on/") -> Any:
    """Follow the redirects, there and back. The answer of the callback."""
    there = client.get(start)
    assert there.status_code == 302, there.content.decode()
    return client.get(_answer_of_provider(there.headers["Location"]))


def _answer_of_provider(url: str) -> str:
    """The address that the provider sends the browser to, of this MSH."""
    address = urlsplit(url)
    connection = HTTPConnection(address.netloc)
    connection.request("GET", f"{address.path}?{address.query}")
    back = urlsplit(connection.getresponse().headers["Location"])
    connection.close()
    assert f"{back.scheme}://{back.netloc}" == "http://testserver"
    return f"{back.path}?{back.query}"


def roles(name: str = "ann") -> list[str]:
    return sorted(User.objects.get(username=name).groups.values_list("name", flat=True))


def log() -> list[tuple[str, str]]:
    entries = SettingChange.objects.filter(kind="Log-in").order_by("pk")
    return [(one.name, one.after["event"]) for one in entries]


def test_who_has_a_role_at_the_provider_logs_in_with_it(provider: Provider) -> None:
    client = Client()
    answer = sign_on(client, "/admin/sign-on/?next=/admin/sessions/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/admin/sessions/")
    assert client.get("/admin/sessions/").status_code == 200
    ann = User.objects.get(username="ann")
    assert (ann.is_staff, ann.is_superuser, ann.has_usable_password()) == (True, False, False)
    assert roles() == ["Operator"]
    assert log() == [("ann", "logged in by single sign-on as Operator")]
    (asked,) = provider.asked
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == "http://testserver/admin/sign-on/callback/"


def test_session_is_like_any_other(provider: Provider) -> None:
    """It has its idle limit, its address and its entry in the list."""
    client = Client()
    sign_on(client)
    assert client.session["msh_address"] == "127.0.0.1"
    assert client.session.get_expiry_age() == settings.SESSION_COOKIE_AGE
    client.post("/admin/logout/")
    assert log()[-1] == ("ann", "logged out")


def test_role_that_is_taken_away_at_the_provider_is_lost(provider: Provider) -> None:
    first = Client()
    sign_on(first)
    User.objects.update(is_superuser=True)
    provider.user["groups"] = ["msh-viewers", "others"]
    sign_on(Client())
    assert roles() == ["Viewer"]
    assert not User.objects.get().is_superuser
    provider.user["groups"] = ["others"]
    answer = sign_on(Client())
    assert (answer.status_code, roles()) == (403, [])
    assert "no value of its claim groups is mapped to a role here" in answer.content.decode()
    assert first.get("/admin/msh/outboundlink/").status_code == 403  # in the other session too


def test_who_has_no_role_is_not_even_created(provider: Provider) -> None:
    provider.user["groups"] = []
    answer = sign_on(Client())
    assert answer.status_code == 403
    assert not User.objects.exists()
    ((name, event),) = log()
    assert name == "ann"
    assert event.startswith("refused by single sign-on: no value of")


def test_user_with_a_password_is_not_taken_over(provider: Provider) -> None:
    User.objects.create_superuser("ann", password="a long enough secret")
    assert sign_on(Client()).status_code == 403
    assert User.objects.get().is_superuser
    ann = User.objects.get()
    ann.set_unusable_password()
    ann.save()
    assert sign_on(Client()).status_code == 302
    provider.user["sub"] = "a-2"  # another person of the same name
    assert sign_on(Client()).status_code == 403


def test_machine_user_is_not_taken_over(provider: Provider) -> None:
    """It has no password either, but applications act as it."""
    spark = User.objects.create_user("spark")
    provider.user["preferred_username"] = "spark"
    assert sign_on(Client()).status_code == 403
    assert not spark.groups.exists()


def test_user_who_is_not_active_stays_outside(provider: Provider) -> None:
    sign_on(Client())
    User.objects.update(is_active=False)
    assert "not active" in sign_on(Client()).content.decode()


def test_lockout_is_for_this_log_in_too(provider: Provider) -> None:
    AccessAttempt.objects.create(
        username="ann",
        ip_address="127.0.0.1",
        failures_since_start=settings.AXES_FAILURE_LIMIT,
        attempt_time=timezone.now(),
    )
    assert sign_on(Client()).status_code == 429


def _changed(**values: object) -> Any:
    return lambda claims: {**claims, **values}


def _without(name: str) -> Any:
    return lambda claims: {key: value for key, value in claims.items() if key != name}


@pytest.mark.parametrize(
    ("falsify", "why"),
    [
        (_changed(nonce="of another log-in"), "belongs to another log-in"),
        (_without("nonce"), "nonce"),
        (_changed(aud="another-client"), "Audience"),
        (_changed(aud=["msh", "other"], azp="other"), "issued to another application"),
        (_changed(iss="http://elsewhere.example"), "issuer"),
        (_changed(exp=int(time.time()) - 3600), "expired"),
        (_without("exp"), "exp"),
        (_without("sub"), "sub"),
    ],
)
def test_token_that_is_not_for_this_log_in_is_refused(
    provider: Provider, falsify: Any, why: str
) -> None:
    provider.falsify = falsify
    _is_refused(why)


def test_token_of_an_unknown_key_is_refused(provider: Provider) -> None:
    provider.signs = new_key()
    _is_refused("Signature verification failed")


def test_token_that_is_signed_with_what_is_public_is_refused(provider: Provider) -> None:
    provider.algorithm, provider.signs = "HS256", "0" * 32  # type: ignore[assignment]
    _is_refused("not valid")


def _is_refused(why: str) -> None:
    client = Client()
    answer = sign_on(client)
    assert answer.status_code == 403
    assert why in answer.content.decode()
    assert not User.objects.exists()
    assert client.get("/admin/").status_code == 302


def test_answer_without_a_log_in_is_refused(provider: Provider) -> None:
    """As of a link in a mail, and of an answer that is sent twice."""
    assert Client().get("/admin/sign-on/callback/?code=0&state=made-up").status_code == 403
    client = Client()
    there = client.get("/admin/sign-on/")
    back = _answer_of_provider(there.headers["Location"])
    assert client.get(back).status_code == 302
    assert client.get(back).status_code == 403
    assert client.get("/admin/sign-on/callback/?error=access_denied").status_code == 403


def test_provider_that_is_another_or_down_is_said(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "configuration", lambda: {"issuer": "http://elsewhere.example"})
    answer = Client().get("/admin/sign-on/")
    assert answer.status_code == 403
    assert "http://elsewhere.example" in answer.content.decode()


def test_page_of_the_log_in_leads_there(provider: Provider) -> None:
    page = Client().get("/admin/login/?next=/admin/sessions/")
    assert 'href="/admin/sign-on/?next=%2Fadmin%2Fsessions%2F"' in page.content.decode()
    assert "form-action 'self'" in page.headers["Content-Security-Policy"]
