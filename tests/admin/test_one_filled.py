"""A page about a trouble has one filled button at most: the one that helps."""

from collections.abc import Iterator

import pytest
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from msh.admin.framework.markup import page_url
from msh.models import Delivery, Incident, OutboundConversation, OutboundLink, OutboundMessage
from tests.admin.conftest import url
from tests.admin.links.conversations import stop
from tests.admin.many import UNAUTHORIZED, answered, standing_deliveries, suspended_partners
from tests.flows.flying import make_sky

pytestmark = pytest.mark.django_db


def rows() -> Iterator[Model]:
    suspended_partners(1, UNAUTHORIZED)
    suspended_partners(1)
    suspended_partners(1, answered(422, "422 no"))
    for state in ("blocked", "in_doubt", "parked"):
        standing_deliveries(state, behind=2)
    stop(make_sky(ordered=True), "talk")
    for model in (OutboundLink, OutboundConversation, Delivery, Incident):
        yield from model.objects.all()
    yield from OutboundMessage.objects.exclude(state="acknowledged")
    for delivery in Delivery.objects.select_related("message__link"):
        yield from (delivery.message, delivery.message.link)


def test_one_button_of_a_page_is_filled(administrator: Client) -> None:
    found = {}
    for row in rows():
        text = administrator.get(page_url(row)).content.decode()
        found[page_url(row)] = text.count("msh-action-recommended")
    for link in OutboundLink.objects.all():
        where = reverse("partner_page", args=[link.partner_id])
        text = administrator.get(where).content.decode()
        found[where] = text.count("msh-action-recommended")
    assert {where: count for where, count in found.items() if count > 1} == {}


def test_no_button_of_a_list_is_filled(administrator: Client) -> None:
    """Of a row here and there one was, and that row is no worse than the others."""
    suspended_partners(2, answered(503, "503 Service Unavailable"))
    text = administrator.get(url(OutboundLink, "changelist")).content.decode()
    rows = text.split('id="result_list"')[1]
    assert "Resume sending" in rows
    assert "msh-action-recommended" not in rows
