"""A new key of MSH_FERNET_KEYS takes over, then the old one can be removed."""

import json
from io import StringIO
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command

from msh.alerts.models import AlertRecipient
from msh.models import Consumer, ConsumerKind
from partners.models import Partner
from partners.models.partner import OutgoingKind

pytestmark = pytest.mark.django_db

OLD, NEW, LOST = (Fernet.generate_key().decode() for _ in range(3))


@pytest.fixture(autouse=True)
def _kept(settings: Any) -> None:
    """A partner and a consumer whose secrets were kept under the old key."""
    settings.MSH_FERNET_KEYS = [OLD]
    partner = Partner(name="acme", uri="http://acme.example/")
    partner.show(OutgoingKind.BEARER, "what-we-send-to-acme")
    for name, value in partner.proxied_by("http://us:of-the-proxy@proxy:3128").items():
        setattr(partner, name, value)
    partner.save()
    Partner.objects.create(name="open", uri="http://open.example/")
    consumer = Consumer(name="orders", kind=ConsumerKind.HTTP, url="http://127.0.0.1/orders")
    consumer.show("Bearer of-the-consumer")
    consumer.save()
    recipient = AlertRecipient(name="ops", channel="webhook")
    recipient.post_to("https://hooks.example/secret")
    recipient.show("Bearer of-the-hook")
    recipient.save()


def rotated() -> dict[str, Any]:
    output = StringIO()
    call_command("rotate-keys", "--json", stdout=output)
    answer: dict[str, Any] = json.loads(output.getvalue())
    return answer


def test_old_key_can_be_removed_afterwards(settings: Any) -> None:
    settings.MSH_FERNET_KEYS = [NEW, OLD]
    assert rotated() == {"rotated": 5, "current": 0, "unreadable": []}
    assert rotated() == {"rotated": 0, "current": 5, "unreadable": []}
    settings.MSH_FERNET_KEYS = [NEW]
    assert Partner.objects.get(name="acme").authorization() == "Bearer what-we-send-to-acme"
    assert Partner.objects.get(name="acme").access().proxy == "http://us:of-the-proxy@proxy:3128"
    assert Consumer.objects.get(name="orders").authorization() == "Bearer of-the-consumer"
    recipient = AlertRecipient.objects.get()
    assert (recipient.url(), recipient.key()) == (
        "https://hooks.example/secret",
        "Bearer of-the-hook",
    )


def test_secret_without_its_key_is_named_and_kept(settings: Any) -> None:
    before = Partner.objects.get(name="acme").outgoing_secret
    settings.MSH_FERNET_KEYS = [NEW, LOST]
    with pytest.raises(CommandError, match="partner acme, consumer orders"):
        rotated()
    assert Partner.objects.get(name="acme").outgoing_secret == before
