"""What we show a partner or a consumer is shown to the host that it was given for, to no other."""

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from msh.models import Consumer, ConsumerKind
from partners.models import Partner
from partners.models.partner import OutgoingKind
from partners.setup import SetupRefused, apply
from tests.admin.setup.test_partner import form, page_of
from tests.delivery.desk import consumer

pytestmark = pytest.mark.django_db

SECRET = "what-acme-gave-us"
OURS = "https://acme.example/ebxml/"
ELSEWHERE = [
    ({"address": "https://evil.example/"}, "another host"),
    ({"address": "https://acme.example:8443/ebxml/"}, "another port"),
    ({"address": "http://acme.example/ebxml/"}, "without TLS"),
    ({"error_address": "https://evil.example/"}, "errors to another host"),
    ({"uri": "https://evil.example/"}, "another URI"),
]
SAME_HOST = {"address": "https://ACME.example:443/other/path", "error_address": OURS}


@pytest.fixture
def partner() -> Partner:
    partner = Partner(name="acme", uri=OURS)
    partner.show(OutgoingKind.BEARER, SECRET)
    partner.save()
    return partner


def shown(partner: Partner) -> tuple[str, str]:
    """Where, and what."""
    now = Partner.objects.get(pk=partner.pk)
    return now.destination, now.authorization()


@pytest.mark.parametrize(("fields", "what"), ELSEWHERE)
def test_page_wants_the_secret_again_for_another_host(
    admin_client: Client, partner: Partner, fields: dict[str, str], what: str
) -> None:
    given = {"uri": OURS, "outgoing_kind": "bearer", **fields}
    refused = admin_client.post(page_of(partner), form(**given))
    assert refused.status_code == 200, what
    assert "enter our credential again" in refused.content.decode()
    assert shown(partner) == (OURS, f"Bearer {SECRET}")
    admin_client.post(page_of(partner), form(**given, secret="another"))
    assert shown(partner)[1] == "Bearer another"


def test_page_keeps_the_secret_on_the_same_host(admin_client: Client, partner: Partner) -> None:
    given = form(uri=OURS, outgoing_kind="bearer", **SAME_HOST)
    assert admin_client.post(page_of(partner), given).status_code == 302
    assert shown(partner) == (SAME_HOST["address"], f"Bearer {SECRET}")


def test_page_lets_the_secret_go_with_the_host(admin_client: Client, partner: Partner) -> None:
    given = form(uri=OURS, outgoing_kind="none", address="https://evil.example/")
    assert admin_client.post(page_of(partner), given).status_code == 302
    assert shown(partner) == ("https://evil.example/", "")


@pytest.mark.parametrize(
    ("fields", "what"), [one for one in ELSEWHERE if "error_address" not in one[0]]
)
def test_setup_wants_the_secret_again_for_another_host(
    partner: Partner, fields: dict[str, str], what: str
) -> None:
    document = {"name": "acme", "uri": OURS, **fields}
    with pytest.raises(SetupRefused, match="enter our credential again"):
        apply({"partners": [document]})
    assert shown(partner) == (OURS, f"Bearer {SECRET}"), what
    apply({"partners": [document | {"token_out": SECRET}]})
    assert shown(partner)[1] == f"Bearer {SECRET}"


# --- consumers ----------------------------------------------------------------------------------
@pytest.fixture
def orders() -> Consumer:
    made = consumer(ConsumerKind.HTTP, url="https://erp.example/orders")
    made.show(f"Bearer {SECRET}")
    made.save()
    return made


def test_consumer_s_page_wants_the_authorization_again_for_another_host(
    admin_client: Client, orders: Consumer
) -> None:
    values = {
        "name": "orders",
        "enabled": "on",
        "kind": "http",
        "history": "on",
        "lease": 60,
        "attempts": 3,
        "retry_interval": 60,
        "on_failure": "block",
        "reason": "moved",
    }
    page = reverse("admin:msh_consumer_change", args=[orders.pk])
    refused = admin_client.post(page, values | {"url": "https://evil.example/"})
    assert "enter the authorization" in refused.content.decode()
    orders.refresh_from_db()
    assert (orders.url, orders.authorization()) == (
        "https://erp.example/orders",
        f"Bearer {SECRET}",
    )
    admin_client.post(page, values | {"url": "https://erp.example/v2"})
    orders.refresh_from_db()
    assert (orders.url, orders.authorization()) == ("https://erp.example/v2", f"Bearer {SECRET}")
    given = {"url": "https://evil.example/", "authorization": "Bearer x"}
    admin_client.post(page, values | given)
    orders.refresh_from_db()
    assert (orders.url, orders.authorization()) == ("https://evil.example/", "Bearer x")


def test_consumer_s_command_wants_the_authorization_again(orders: Consumer) -> None:
    with pytest.raises(CommandError, match="enter the authorization"):
        call_command("consumer", "orders", url="https://evil.example/")
    call_command("consumer", "orders", url="https://evil.example/", authorization="")
    orders.refresh_from_db()
    assert (orders.url, orders.authorization()) == ("https://evil.example/", "")


def test_secret_does_not_come_back_by_way_of_another_kind(orders: Consumer) -> None:
    orders.kind, orders.url = ConsumerKind.PULL, ""
    orders.full_clean()
    orders.save()
    orders.kind, orders.url = ConsumerKind.HTTP, "https://evil.example/"
    with pytest.raises(ValidationError, match="enter the authorization"):
        orders.full_clean()
