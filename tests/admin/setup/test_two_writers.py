"""A page of the configuration is saved while something else writes its row."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from msh.alerts.flows.recipients import take_recipient
from msh.alerts.models import AlertRecipient
from msh.flows.operations import configure
from msh.store.history import Actor
from msh.store.operations.settings_log import lock_to_change
from partners.models import Channel, Partner
from tests.flows.flying import make_sky
from tests.sessions import beside, meet, somebody_waits_for_us
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

ACTOR = Actor("root", "the test says so")


@pytest.fixture
def partner() -> Partner:
    return Partner.objects.create(name="acme", uri="http://acme.example/ebxml/")


def page_of(row: Model) -> str:
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return reverse(name, args=[row.pk])


def posting(client: Client, row: Model, data: Mapping[str, object]) -> Callable[[], Any]:
    return lambda: client.post(page_of(row), data)


def test_a_log_in_while_a_user_is_saved_is_kept(administrator: Client) -> None:
    user = User.objects.create_user("kim")
    now = datetime(2026, 11, 23, 12, tzinfo=UTC)
    rows = User.objects.filter(pk=user.pk)
    data = {"username": "kim", "first_name": "Kim", "is_active": "on", "reason": "name"}
    data |= {"date_joined_0": "2026-11-21", "date_joined_1": "12:00:00"}

    answer = meet(lambda: rows.update(last_login=now), posting(administrator, user, data))

    assert answer.status_code == 302
    assert rows.values_list("first_name", "last_login").get() == ("Kim", now)


def test_a_document_waits_until_a_page_is_saved(partner: Partner) -> None:
    """Not half of it: then the page would wait for the document too."""
    document = {"partners": [{"name": "acme", "probe_interval": 60}]}

    with ExitStack() as stack:
        with transaction.atomic():
            lock_to_change(partner)
            doing = stack.enter_context(beside(lambda: configure.apply(document, ACTOR)))
            wait_until(somebody_waits_for_us)
            partner.contact = "ann"
            partner.save()
        assert [change.fields for change in doing.result().changes] == [("probe_interval",)]

    partner.refresh_from_db()
    assert (partner.probe_interval, partner.contact) == (60, "ann")


@pytest.mark.requirement("EB-201")
def test_a_document_waits_until_a_channel_is_added() -> None:
    """The agreement is written after its channel: not the other way round."""
    sky = make_sky()
    about = {"tpa_id": sky.agreement.tpa_id, "window": 5}
    document = {"partners": [{"name": sky.partner.name, "agreements": [about]}]}

    with ExitStack() as stack:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("LOCK TABLE partners_channel IN ROW EXCLUSIVE MODE")
            doing = stack.enter_context(beside(lambda: configure.apply(document, ACTOR)))
            wait_until(somebody_waits_for_us)
            channel = {"direction": "in", "service": "urn:orders", "action": "New"}
            Channel.objects.create(agreement=sky.agreement, **channel)
        assert ("window",) in [change.fields for change in doing.result().changes]

    sky.agreement.refresh_from_db()
    assert (sky.agreement.window, sky.agreement.has_channels) == (5, True)


def test_a_recipient_that_was_added_meanwhile_is_updated_by_a_document() -> None:
    desk = {"name": "desk", "channel": "email", "addresses": "desk@example.net"}
    document = {"recipients": [{**desk, "wait": 15}]}
    sections = {"recipients": configure.Section(take_recipient, AlertRecipient)}

    report = meet(
        lambda: AlertRecipient.objects.create(**desk),
        lambda: configure.apply(document, ACTOR, sections=sections),
    )

    assert [(change.what, change.fields) for change in report.changes] == [("updated", ("wait",))]
