"""A secret and its successor overlap: nothing is refused in between (docs/operations.md)."""

from base64 import b64encode
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from msh.models import InboundMessage, OutboundLink, SettingChange, Signal
from partners.models import Credential, Partner
from partners.setup import apply
from tests.admin.setup.test_partner import form
from tests.flows.world import LOST, make_world
from tests.peer import Peer, normal

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = "the-first-secret-of-acme", "the-second-secret-of-acme"


def shown(key: str, secret: str) -> dict[str, str]:
    if key == "token_in":
        return {"Authorization": f"Bearer {secret}"}
    return {"Authorization": f"Basic {b64encode(secret.encode()).decode()}"}


def delete_on_the_page(client: Client, partner: Partner, old: Credential) -> None:
    page = reverse("admin:partners_partner_change", args=[partner.pk])
    data = form(uri=partner.uri) | {
        "credentials-TOTAL_FORMS": 1,
        "credentials-INITIAL_FORMS": 1,
        "credentials-0-id": old.pk,
        "credentials-0-partner": partner.pk,
        "credentials-0-DELETE": "on",
    }
    response = client.post(page, data)
    assert response.status_code == 302, response.context["errors"]


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [("token_in", OLD, NEW), ("basic_in", f"acme:{OLD}", f"acme:{NEW}")],
)
def test_old_and_new_secret_of_a_partner_overlap_until_the_old_is_deleted(
    peer: Peer, partner: Partner, admin_client: Client, key: str, old: str, new: str
) -> None:
    """The web process remembers the partner by either, so that each is asked several times."""
    partner.credentials.all().delete()
    numbers = iter(range(1, 100))

    def status(secret: str) -> int:
        draft = normal(sequence_number=next(numbers))
        return peer.send(draft, token=None, headers=shown(key, secret)).status

    apply({"partners": [{"name": "acme", key: old}]})
    first = partner.credentials.get()
    assert [status(old) for _ in range(3)] == [204] * 3
    apply({"partners": [{"name": "acme", key: new}]})
    assert [status(secret) for secret in (new, old) * 3] == [204] * 6
    delete_on_the_page(admin_client, partner, first)
    assert [status(new) for _ in range(3)] == [204] * 3
    draft = normal(sequence_number=next(numbers))
    for _ in range(2):
        refused = peer.send(draft, token=None, headers=shown(key, old))
        assert (refused.status, "unknown credentials" in refused.error) == (401, True)
    assert peer.send(draft, token=None, headers=shown(key, new)).status == 204
    assert InboundMessage.objects.count() == 13
    assert SettingChange.objects.filter(reason="the test says so").exists()


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ({"token_out": NEW}, f"Bearer {NEW}"),
        ({"basic_out": f"us:{NEW}"}, shown("basic_out", f"us:{NEW}")["Authorization"]),
    ],
)
def test_what_is_sent_after_the_change_of_our_secret_shows_the_new_one(
    given: dict[str, Any], header: str
) -> None:
    """Also the next copy of a message that was sent with the old one, with the same bytes, and an
    Acknowledgement."""
    world = make_world()
    for partner in (world.there, world.here):
        apply({"partners": [{"name": partner.name, "token_out": OLD}]})
    world.submit()
    (first,) = world.poll()
    assert first.authorization == f"Bearer {OLD}"
    world.end(first, LOST)
    for partner in (world.there, world.here):
        apply({"partners": [{"name": partner.name, **given}]})
    OutboundLink.objects.update(due="2026-01-01T00:00Z")
    (second,) = world.poll()
    assert (second.authorization, second.body) == (header, first.body)
    world.hand_over(second)
    world.end(second)
    assert Signal.objects.exists()
    (answer,) = world.poll()
    assert answer.authorization == header
