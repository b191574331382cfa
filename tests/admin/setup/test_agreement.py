"""Agreements: their retry horizon."""

import pytest
from django.test import Client
from django.urls import reverse

from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def test_the_horizon_is_computed(administrator: Client) -> None:
    agreement = make_world(timeout=10, retries=4, retry_interval=5).agreement

    page = administrator.get(
        reverse("admin:partners_partner_change", args=[agreement.partner.pk])
    ).content.decode()

    assert "<output data-horizon>30 s</output>" in page
    shown = administrator.get(
        reverse("admin:partners_agreement_change", args=[agreement.pk])
    ).content.decode()
    assert "at least 11 days" in shown
