"""A guesser behind the address of partners, as behind one NAT, and a process that has just begun:
it remembers nobody."""

from collections.abc import Iterator
from typing import Any

import pytest
from rest_framework import exceptions
from rest_framework.test import APIRequestFactory

from msh.allowance import guesses
from msh.api.framework import access
from msh.api.framework.access import TokenAuthentication
from msh.endpoint.view import NotTaken, Request
from msh.models import ApiToken
from msh.store.cache import Cache
from msh.store.receiving import senders
from msh.web import senders as admission
from partners.models import Partner, digest_of

pytestmark = pytest.mark.django_db

ADDRESS = "192.0.2.7"


@pytest.fixture(autouse=True)
def _after_a_restart_beside_a_guesser(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(senders, "_cached", Cache())
    monkeypatch.setattr(access, "_cached", Cache())
    senders.credentials.forget()
    access.tokens.forget()
    for _ in range(200):
        guesses.spend(ADDRESS)
    yield
    guesses.forget()
    senders.credentials.forget()
    access.tokens.forget()


@pytest.fixture
def partner() -> Partner:
    partner = Partner.objects.create(name="acme", uri="http://acme.example/ebxml/")
    partner.credentials.create(sha256=digest_of("a secret"))
    return partner


def post(path: str, secret: str) -> Any:
    return APIRequestFactory().post(
        path, HTTP_AUTHORIZATION=f"Bearer {secret}", REMOTE_ADDR=ADDRESS
    )


def test_a_partner_is_served(partner: Partner) -> None:
    request = post("/ebxml/", "a secret")
    assert Request(request.environ).find_sender() == partner
    senders._cached.clear()
    admitted = admission.find(request.environ)
    assert admitted is not None
    assert admitted.sender == admission.of_partner(partner.pk)


def test_a_guess_is_not_looked_at(partner: Partner, django_assert_num_queries: Any) -> None:
    with pytest.raises(NotTaken, match="too many failed authentications") as refused:
        Request(post("/ebxml/", "a guess").environ).find_sender()
    assert refused.value.status == 429
    with django_assert_num_queries(0):
        for number in range(10):
            request = post("/ebxml/", f"another {number}")
            with pytest.raises(NotTaken):
                Request(request.environ).find_sender()
            assert admission.find(request.environ) is None


def test_an_application_is_served(django_user_model: Any) -> None:
    user = django_user_model.objects.create_user("app")
    token = ApiToken(user=user, name="app", scopes=[])
    secret = token.generate()
    token.save()
    assert TokenAuthentication.find(f"Bearer {secret}") == token
    access._cached.clear()
    assert TokenAuthentication().authenticate(post("/api/v1/", secret)) == (user, token)
    with pytest.raises(exceptions.Throttled):
        TokenAuthentication().authenticate(post("/api/v1/", "a guess"))
