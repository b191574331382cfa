"""The time zone of the user: what pages show, and what they read."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.admin.framework.time_zone import LocalTimeField, aware
from msh.models import ApiToken, Incident, OutboundLink, OutboundMessage, Preference
from tests.admin.conftest import suspended_world, url
from tests.api.test_access import made_in_console

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def choose(client: Client, zone: str) -> Any:
    return client.post(reverse("time_zone"), {"zone": zone}, follow=True)


def shown(client: Client) -> str:
    """The page of the one message."""
    page = client.get(url(OutboundMessage, "change", OutboundMessage.objects.get().pk))
    return str(page.content.decode())


@pytest.fixture
def message(db: None) -> OutboundMessage:
    suspended_world(queued=0)
    OutboundMessage.objects.update(submitted_at=NOON)
    return OutboundMessage.objects.get()


def test_a_user_sees_times_in_the_zone_of_her_choice(
    supervisor: Client, viewer: Client, message: OutboundMessage, settings: Any
) -> None:
    assert "2026-06-01 12:00:00 UTC" in shown(supervisor)
    assert (
        "Times are shown in Europe/Madrid" in choose(supervisor, "Europe/Madrid").content.decode()
    )
    page = shown(supervisor)
    assert "2026-06-01 14:00:00 CEST" in page
    assert 'title="2026-06-01 12:00:00.000+00:00"' in page, "UTC on hover"
    assert "12:00:00 UTC" in shown(viewer)
    assert timezone.get_current_timezone_name() == "UTC", "of this thread, for the next request"
    settings.MSH_TIME_ZONE = "Asia/Kolkata"
    assert "17:30:00 IST" in shown(viewer)
    assert "14:00:00 CEST" in shown(supervisor)
    choose(supervisor, "")
    assert "17:30:00 IST" in shown(supervisor)


def test_the_choice_outlives_the_session(
    supervisor: Client, message: OutboundMessage, settings: Any
) -> None:
    choose(supervisor, "Europe/Madrid")
    user = User.objects.get(username="sue")
    user.set_password("long enough")
    user.save()
    again = Client()
    again.post(reverse("admin:login"), {"username": "sue", "password": "long enough"})
    assert again.session["msh_time_zone"] == "Europe/Madrid"
    assert "14:00:00 CEST" in shown(again)


def test_what_is_no_zone_is_refused(supervisor: Client, message: OutboundMessage) -> None:
    assert "not one of the available choices" in choose(supervisor, "Mars/Base").content.decode()
    assert not Preference.objects.exists()
    Preference.objects.create(user=User.objects.get(username="sue"), time_zone="Gone/Zone")
    assert "12:00:00 UTC" in shown(supervisor)


def test_what_is_typed_is_read_in_it(administrator: Client, message: OutboundMessage) -> None:
    choose(administrator, "Europe/Madrid")
    where = url(OutboundMessage, "changelist")

    def found(since: str) -> Any:
        return administrator.get(where, {"since": since}, follow=True)

    assert message.message_id in found("2026-06-01 13:59").content.decode()
    assert message.message_id not in found("2026-06-01 14:01").content.decode()
    assert "Europe/Madrid" in found("2026-06-01 13:59").content.decode()
    refused = found("2027-03-28 02:30").content.decode()
    assert "2027-03-28 02:30 does not exist in Europe/Madrid" in refused
    made_in_console(administrator, name="erp", scopes=["read"], expires="2030-01-01 01:00")
    assert ApiToken.objects.get().expires == datetime(2030, 1, 1, tzinfo=UTC)


def test_the_gap_and_the_hour_that_comes_twice_are_refused_in_words() -> None:
    field = LocalTimeField()
    with timezone.override("Europe/Madrid"):
        assert field.clean("2027-03-28T03:00") == datetime(2027, 3, 28, 1, 0, tzinfo=UTC)
        with pytest.raises(ValidationError, match="the clocks are put forward 1 h that day"):
            field.clean("2027-03-28 02:00")
        in_words = "comes twice in Europe/Madrid: .* put back 1 h"
        with pytest.raises(ValidationError, match=in_words) as twice:
            field.clean("2026-10-25 02:30")
        assert "2026-10-25 02:30+02:00 or 2026-10-25 02:30+01:00" in str(twice.value)
        second = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
        assert field.clean("2026-10-25 02:30+01:00") == second
        assert field.clean(field.prepare_value(second)) == second
        with pytest.raises(ValidationError, match="Enter a date and time, such as 2026-12-31"):
            field.clean("31.12.2026")
        assert field.prepare_value(NOON) == "2026-06-01 14:00:00"
    with timezone.override("Australia/Lord_Howe"), pytest.raises(ValueError, match="30 min"):
        aware(datetime(2027, 4, 4, 1, 45))  # noqa: DTZ001


@pytest.mark.parametrize("first", [0, 30, 60])
def test_a_list_is_limited_by_a_time_in_the_hour_that_comes_twice(
    supervisor: Client, message: OutboundMessage, settings: Any, first: int
) -> None:
    """Of minutes after 02:00, on the day on which 02:59 is followed by 02:00."""
    settings.MSH_TIME_ZONE = "Europe/Madrid"
    since = datetime(2025, 10, 26, 0, 0, tzinfo=UTC) + timedelta(minutes=first)
    OutboundLink.objects.update(suspended_since=since)
    where = reverse("admin:msh_outboundlink_changelist")

    def shown(since: datetime) -> int:
        local = timezone.localtime(since, ZoneInfo("Europe/Madrid"))
        page = supervisor.get(where, {"since": local.isoformat()})
        return len(page.context["cl"].result_list)

    assert (shown(since), shown(since + timedelta(seconds=1))) == (1, 0)


def test_times_in_the_detail_of_an_incident_are_in_the_zone_of_the_user(
    supervisor: Client, message: OutboundMessage
) -> None:
    incident = Incident.objects.get()
    odd = "at 2026-13-01 12:00:00 UTC"
    Incident.objects.update(detail=f"no progress since 2026-06-01 12:00:00 UTC: held {odd}")
    choose(supervisor, "Europe/Madrid")
    partner = reverse("partner_page", args=[incident.partner_id])
    for where in (url(Incident, "change", incident.pk), url(Incident, "changelist"), partner):
        page = supervisor.get(where).content.decode()
        assert f"no progress since 2026-06-01 14:00:00 CEST: held {odd}" in page
