"""Times that partners set: an unset date, "never", hour 24. What is taken can be shown."""

import re
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from msh.flows.operations.tokens import make
from msh.models import InboundMessage, Preference, Scope
from tests.admin.conftest import url
from tests.endpoint.ebms2 import Send, answers
from tests.flows.world import make_world
from tests.peer.ebms2 import message

pytestmark = pytest.mark.django_db(transaction=True)

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
ZONES = ["Europe/Madrid", "America/New_York", "Pacific/Kiritimati", "Etc/GMT+12", "UTC"]


@pytest.fixture
def people(transactional_db: None) -> dict[str, Client]:
    """By their zones."""
    clients = {}
    for zone in ZONES:
        user = User.objects.create_superuser(zone)
        Preference.objects.create(user=user, time_zone=zone)
        clients[zone] = Client()
        clients[zone].force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return clients


SHOWN = {
    "0001-01-01T00:00:00Z": "0001-01-01 00:00:00",
    "0001-01-01T00:00:00": "0001-01-01 00:00:00",
    "0001-01-01T00:00:00+14:00": "0001-01-01 00:00:00",
    "-0001-01-01T00:00:00Z": "0001-01-01 00:00:00",
    "9999-12-31T23:59:59Z": "9999-12-31 23:59:59",
    "9999-12-31T23:59:59.9999999-14:00": "9999-12-31 23:59:59",
    "12026-11-26T10:00:00Z": "9999-12-31 23:59:59",
    "2020-02-29T24:00:00Z": "2020-03-01 00:00:00",
}
"""Each timestamp as it is in UTC."""


@pytest.mark.requirement("EB-037")
def test_timestamp_at_the_end_of_time(send: Send, people: dict[str, Client]) -> None:
    """It is acknowledged; the page of the message, its list and its exports open in every zone,
    and one of them shows it as it is in UTC."""
    shown = {}
    for timestamp, in_utc in SHOWN.items():
        out = message(timestamp=timestamp)
        assert send(out).status == 204
        assert [one.action for one in answers(out)] == ["Acknowledgment"], timestamp
        shown[out.message_id] = in_utc
    rows = url(InboundMessage, "changelist")
    for zone, client in people.items():
        for one in InboundMessage.objects.all():
            page = client.get(url(InboundMessage, "change", one.pk))
            assert page.status_code == 200, (zone, one.message_id)
            text = page.content.decode()
            assert f'title="{shown[one.message_id]}' in text
            assert zone != "UTC" or f"{shown[one.message_id]} UTC" in text
        for address in (rows, reverse("admin:index"), f"{rows}?q={next(iter(shown))}"):
            assert client.get(address).status_code == 200
        for form in ("csv", "json"):
            content = b"".join(client.post(f"{rows}rows/", {"format": form})).decode()
            assert [one for one in shown if one not in content] == []


@pytest.mark.requirement("EB-037")
@pytest.mark.parametrize("timestamp", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_feed_shows_a_message_from_the_end_of_time(send: Send, timestamp: str) -> None:
    out = message(timestamp=timestamp)
    send(out)
    _, secret = make("reader", [Scope.READ])

    answer = Client().get("/api/v1/inbound", headers={"Authorization": f"Bearer {secret}"})

    assert answer.status_code == 200
    assert out.message_id in answer.content.decode()


@pytest.mark.requirement("EB-040")
@pytest.mark.parametrize(
    "end",
    [
        "9999-12-31T23:59:59-05:00",
        "9999-12-31T23:59:59+14:00",
        "9999-12-31T24:00:00Z",
        "2199-12-31T24:00:00Z",
        "2199-12-31T23:59:60z",
        "2199-12-31T23:59:59",
        "2199-12-31T23:59:59.123456789Z",
        "99999-12-31T23:59:59Z",
    ],
)
def test_time_to_live_that_means_never(send: Send, end: str) -> None:
    out = message(time_to_live=end)

    assert send(out).status == 204

    assert [one.action for one in answers(out)] == ["Acknowledgment"]


@pytest.mark.requirement("EB-040")
@pytest.mark.parametrize(
    "end", ["0001-01-01T00:00:00+05:00", "-9999-01-01T00:00:00Z", "0000-01-01T00:00:00Z"]
)
def test_time_to_live_before_all_time_has_expired(send: Send, end: str) -> None:
    out = message(time_to_live=end)

    send(out)

    (answer,) = answers(out)
    assert [code for code, _ in answer.errors] == ["TimeToLiveExpired"]


@pytest.mark.parametrize("value", ["0001-01-01", "9999-12-31 23:59:59", "0001-01-01T00:00+14:00"])
def test_list_can_be_limited_by_the_end_of_time(people: dict[str, Client], value: str) -> None:
    make_world().submit()
    addresses = re.findall(r'name="(\w*(?:since|until|after|before)\w*)"', _list(people["UTC"]))
    assert len(addresses) == 2
    for client in people.values():
        for address in addresses:
            page = client.get(url(InboundMessage, "changelist"), {address: value})
            assert page.status_code == 200


def _list(client: Client) -> str:
    return client.get(url(InboundMessage, "changelist")).content.decode()
