"""Agreements: their retry horizon."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from partners.models import Agreement
from partners.models.dialects import Dialect, settings_of
from tests.admin.conftest import url
from tests.flows.flying import make_sky
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


@pytest.mark.parametrize("dialect", Dialect)
def test_fields_are_in_groups_and_in_order(viewer: Client, dialect: Dialect) -> None:
    """F29: *Timeout* far from *Retries*, and "Its context" twice, away from its PartyId."""
    agreement = (make_sky() if dialect == Dialect.EBMS2 else make_world()).agreement
    page = viewer.get(url(Agreement, "change", agreement.pk))
    groups: Any = page.context["adminform"].fieldsets
    rows = [row for _, group in groups for row in group["fields"]]

    assert ("our_party", "our_party_context") in rows
    assert ("their_party", "their_party_context") in rows
    retried: Any = dict(groups)["Retries"]["fields"]
    first = ("wait", "retries") if dialect == Dialect.TRP else ("retries",)
    assert [*retried] == [first, ("wait_after_retry", "early_warning"), ("horizon",)]
    shown = {name for row in rows for name in row}
    renamed = {"timeout": "wait", "retry_interval": "wait_after_retry"}
    wanted = {renamed.get(one, one) for one in settings_of(dialect).names.values()}
    assert shown == wanted | {"partner_page", "horizon", "kept"}
    text = page.content.decode()
    assert "Context of our PartyId" in text
    assert "Its context" not in text


def test_the_list_says_the_waits_in_words(viewer: Client) -> None:
    make_world(timeout=120, retries=3, retry_interval=60)
    page = viewer.get(url(Agreement, "changelist")).content.decode()
    assert '3<div class="msh-note">after 2 min, then every 60 s</div>' in page
