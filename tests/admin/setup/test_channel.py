"""Channels in the console (EB-201)."""

import pytest
from django.test import Client
from django.urls import reverse

from msh.models import SettingChange
from partners.models import Agreement, Channel, Partner
from tests.admin.conftest import url
from tests.flows.flying import make_sky
from tests.flows.world import make_world

from .test_partner import form

pytestmark = [pytest.mark.django_db, pytest.mark.requirement("EB-201")]

ADD = reverse("admin:partners_channel_add")
WHY = "agreed on Monday"


def fields(agreement: Agreement, **terms: object) -> dict[str, object]:
    given = {"agreement": agreement.pk, "direction": "out", "service": "urn:orders"}
    return {**given, "action": "New", "reason": WHY, **terms}


def test_a_channel_is_added_with_a_reason_and_has_only_what_was_entered(
    administrator: Client,
) -> None:
    agreement = make_sky().agreement

    added = administrator.post(ADD, fields(agreement, retries=7, signed="unknown", our_role=""))

    assert added.status_code == 302
    channel = Channel.objects.get()
    assert (channel.agreement, channel.terms, channel.address) == (agreement, {"retries": 7}, None)
    change = SettingChange.objects.get(kind="Channel")
    assert (change.what, change.reason) == ("added", WHY)
    assert channel.action in administrator.get(url(Channel, "changelist")).content.decode()


def test_a_term_that_is_cleared_is_the_agreements_again(administrator: Client) -> None:
    channel = Channel.objects.create(
        agreement=make_sky().agreement, direction="out", service="urn:o", action="New",
        retries=7, ordered=False, soap_action="x", address="http://x.example/",
    )  # fmt: skip
    page = url(Channel, "change", channel.pk)
    assert administrator.get(page).status_code == 200

    empty = {"ordered": "unknown", "soap_action": "", "address": "", "retries": ""}
    saved = administrator.post(page, fields(channel.agreement, **empty))

    assert saved.status_code == 302
    channel.refresh_from_db()
    assert (channel.terms, channel.address) == ({}, None)
    assert SettingChange.objects.get(kind="Channel").before["retries"] == 7


def test_a_text_that_was_empty_is_not_the_agreements_when_something_else_changes(
    administrator: Client,
) -> None:
    agreement = make_sky(service_type="usual").agreement
    channel = Channel.objects.create(
        agreement=agreement, direction="out", service="urn:orders", action="New", service_type=""
    )
    page = url(Channel, "change", channel.pk)
    saved = administrator.post(page, fields(agreement, service_type="", retries=1))
    assert saved.status_code == 302
    channel.refresh_from_db()
    assert channel.terms == {"service_type": "", "retries": 1}
    change = SettingChange.objects.get(kind="Channel")
    assert change.before == {"retries": None}


def test_what_a_channel_cannot_have_is_said_at_its_field(administrator: Client) -> None:
    agreement = make_sky().agreement
    wrong = fields(agreement, direction="in", retries=3)
    errors = administrator.post(ADD, wrong).context["adminform"].form.errors
    assert errors["retries"] == ["A channel of messages that the partner sends has no retries."]
    of_draft = administrator.post(ADD, fields(make_world().agreement))
    assert "agreement" in of_draft.context["adminform"].form.errors
    choices = of_draft.context["adminform"].form.fields["agreement"].choices
    assert [name for key, name in choices if key] == [f"{agreement} of {agreement.partner}"]
    nothing = administrator.post(ADD, {"reason": WHY})
    assert {"agreement", "service"} <= {*nothing.context["adminform"].form.errors}
    assert not Channel.objects.exists()


def test_another_of_the_same_service_is_of_another_type(administrator: Client) -> None:
    agreement = make_sky(service_type="usual").agreement
    for more in ({}, {"service_type": "plain"}):
        assert administrator.post(ADD, fields(agreement, **more)).status_code == 302
    for same in ("", "usual", "plain"):
        again = administrator.post(ADD, fields(agreement, service_type=same))
        errors = again.context["adminform"].form.errors
        assert "This agreement has another channel for this Service" in str(errors), same
    shown = administrator.get(url(Channel, "changelist")).content.decode()
    assert "service_type plain" in shown
    plain = Channel.objects.get(service_type="plain")
    page = url(Channel, "change", plain.pk)
    saved = administrator.post(page, fields(agreement, service_type="plain", retries=1))
    assert saved.status_code == 302
    assert Channel.objects.count() == 2


def test_the_page_of_an_agreement_shows_its_channels(viewer: Client) -> None:
    agreement = make_sky().agreement
    page = url(Agreement, "change", agreement.pk)
    assert "every Service and Action may be sent" in viewer.get(page).content.decode()
    channel = Channel.objects.create(
        agreement=agreement, direction="out", service="urn:o", action="New", retries=7
    )
    shown = viewer.get(page).content.decode()
    assert url(Channel, "change", channel.pk) in shown
    assert "retries 7" in shown
    draft = url(Agreement, "change", make_world().agreement.pk)
    assert "every Service and Action" not in viewer.get(draft).content.decode()


def test_every_field_of_a_channel_is_on_its_form(administrator: Client) -> None:
    form = administrator.get(ADD).context["adminform"].form
    assert {*form.fields} - {"reason"} == {
        field.name for field in Channel._meta.fields if field.editable and field.name != "id"
    }


def test_channels_that_go_with_their_agreement_are_recorded(administrator: Client) -> None:
    sky = make_sky(channels=[{"direction": "in", "service": "urn:o", "action": "New"}])
    agreement, partner = sky.agreement, sky.partner
    gone = {"id": agreement.pk, "partner": partner.pk, "DELETE": "on"}
    data = form(name=partner.name, uri=partner.uri, our_uri=partner.our_uri, agreements=[gone])

    saved = administrator.post(
        url(Partner, "change", partner.pk), data | {"agreements-INITIAL_FORMS": 1}
    )

    assert saved.status_code == 302
    assert not Agreement.objects.exists()
    change = SettingChange.objects.get(kind="Channel", what="removed")
    assert change.name.startswith("in urn:o New of ")
    assert change.name.endswith(f" of {partner.name}")
