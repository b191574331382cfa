"""A new MSH says what to do first, and each step goes when it is done."""

import pytest
from django.test import Client
from django.urls import reverse

from partners.models import Agreement, Partner
from tests.admin.conftest import address, client_of
from tests.flows.world import World

pytestmark = pytest.mark.django_db
PAGE = reverse("admin:index")


def steps(client: Client) -> list[str]:
    return [step.title for step in client.get(PAGE).context["first_steps"]]


def links(client: Client) -> set[str]:
    found = client.get(PAGE).context["first_steps"]
    return {jump.url for step in found for jump in step.jumps}


def test_a_new_msh_says_what_to_do_first(administrator: Client) -> None:
    assert steps(administrator) == [
        "Add a partner",
        "Add an agreement with it",
        "Send a test message",
    ]
    text = administrator.get(PAGE).content.decode()
    for name in ("partners_partner_add", "partners_agreement_import"):
        where = reverse(f"admin:{name}")
        assert f'href="{where}"' in text
        assert administrator.get(where).status_code == 200
    assert 'id="first-steps"' in text
    assert "msh-chart" not in text


def test_each_step_goes_when_it_is_done(administrator: Client) -> None:
    partner = Partner.objects.create(name="acme", uri="http://acme.example/")
    assert steps(administrator) == ["Add an agreement with it", "Send a test message"]
    (settings,) = links(administrator)
    assert administrator.get(settings).status_code == 200

    agreement = Agreement.objects.create(
        partner=partner, tpa_id="tpa", our_party="1", their_party="2"
    )

    (left,) = administrator.get(PAGE).context["first_steps"]
    assert left.title == "Send a test message"
    (offer,) = left.offers
    assert (offer.url, offer.recommended) == (address("send_test_message", agreement), True)
    assert administrator.get(offer.url).status_code == 200


def test_where_a_message_was_exchanged_there_is_no_first_step(
    administrator: Client, world: World
) -> None:
    world.submit()
    response = administrator.get(PAGE)
    assert response.context["first_steps"] == ()
    assert 'id="first-steps"' not in response.content.decode()


def test_who_may_not_do_a_step_is_told_who_may() -> None:
    viewer = client_of("vera", "view_outboundlink", "view_outboundmessage", "view_incident")
    found = viewer.get(PAGE).context["first_steps"]
    assert [(*step.jumps, *step.offers) for step in found] == [()] * 3
    assert [step.ask.partition("ask ")[2] for step in found] == [
        "a user with the role Administrator.",
        "a user with the role Administrator.",
        "a user with the role Supervisor.",
    ]
