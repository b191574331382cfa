"""The pages of who is called: secrets, refusals, the audit log, test calls, who may."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from msh import roles
from msh.alerts.models import AlertRecipient, Channel
from msh.models import MaintenanceWindow, SettingChange
from msh.store.operations.operator_actions import open_links
from partners.models import Partner
from tests.admin.conftest import client_with_role, messages_of, url
from tests.flows.alerts.conftest import SECRET, recipient
from tests.flows.world import World
from tests.peer import Peer

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOOK = f"https://hooks.example/services/{SECRET}"


def form(**values: Any) -> dict[str, Any]:
    given = {
        "name": "night shift",
        "enabled": "on",
        "channel": "slack",
        "url": HOOK,
        "at_least": "critical",
        "step": "1",
        "wait": "10",
        "quiet_days": ["1", "2"],
        "time_zone": "Europe/Amsterdam",
        "reason": "new team",
    }
    return {name: value for name, value in {**given, **values}.items() if value is not None}


def errors(response: Any) -> dict[str, Any]:
    return dict(response.context["adminform"].form.errors)


def add(client: Client, **values: Any) -> Any:
    return client.post(url(AlertRecipient, "add"), form(**values))


def change(client: Client, **values: Any) -> Any:
    made = AlertRecipient.objects.get()
    return client.post(url(AlertRecipient, "change", made.pk), form(**values))


def test_recipient_is_added_with_its_secret_encrypted_and_audited(
    world: World, administrator: Client
) -> None:
    response = add(
        administrator, partners=[world.there.pk], quiet_from="22:00", quiet_until="07:00",
        quiet_all_day=["6", "7"],
    )  # fmt: skip
    assert response.status_code == 302, errors(response)
    made = AlertRecipient.objects.get()
    assert (made.url(), made.host) == (HOOK, "https://hooks.example")
    assert SECRET not in made.url_secret
    assert (made.quiet_days, made.quiet_all_day) == ("12", "67")
    kept = SettingChange.objects.get(kind="Alert recipient")
    assert (kept.reason, kept.after["url_secret"]) == ("new team", "(not shown)")
    assert kept.after["partners"] == [str(world.there)]
    for page in (url(AlertRecipient, "change", made.pk), url(AlertRecipient, "changelist")):
        shown = administrator.get(page).content.decode()
        assert SECRET not in shown
        assert made.url_secret not in shown
    assert "https://hooks.example" in shown
    assert "22:00 to 07:00 from Mon, Tue, all Sat, Sun (Europe/Amsterdam)" in shown


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"url": ""}, "__all__", "Enter the URL to POST to."),
        ({"url": "ftp://x/"}, "url", "is not a URL to POST to"),
        ({"channel": "pagerduty", "url": ""}, "__all__", "Enter the routing key"),
        ({"channel": "email", "url": ""}, "addresses", "Enter an e-mail address, or"),
        (
            {"channel": "email", "addresses": "a@b.example nobody"},
            "addresses",
            "nobody is not an e-mail",
        ),
        ({"addresses": "a@b.example"}, "addresses", "E-mail addresses and role are for mail only"),
        (
            {"quiet_from": "22:00"},
            "__all__",
            "Enter both the beginning and the end",
        ),
        ({"quiet_from": "10 pm"}, "quiet_from", "such as 22:00"),
        ({"quiet_all_day": list("1234567")}, "__all__", "The quiet hours never end"),
        ({"time_zone": "Mars/Olympus"}, "time_zone", "Select a valid choice"),
        ({"step": "0"}, "step", "greater than or equal to 1"),
        ({"reason": None}, "reason", "required"),
    ],
)
def test_impossible_recipients_are_refused(
    administrator: Client, values: dict[str, Any], field: str, words: str
) -> None:
    assert words in str(errors(add(administrator, **values))[field])
    assert not AlertRecipient.objects.exists()


def test_secrets_stay_unless_they_are_entered(administrator: Client) -> None:
    add(administrator, channel="webhook", key=f"Bearer {SECRET}")
    change(administrator, channel="webhook", url="", wait="20")
    made = AlertRecipient.objects.get()
    assert (made.url(), made.key(), made.wait) == (HOOK, f"Bearer {SECRET}", 20)

    change(administrator, channel="webhook", url="https://hooks.example/other")
    made.refresh_from_db()
    assert (made.url(), made.key()) == ("https://hooks.example/other", f"Bearer {SECRET}")
    change(administrator, channel="webhook", url="", key="none")
    made.refresh_from_db()
    assert (made.url(), made.key()) == ("https://hooks.example/other", "")


def test_key_is_not_sent_to_another_host(administrator: Client) -> None:
    add(administrator, channel="webhook", key=f"Bearer {SECRET}")
    response = change(administrator, channel="webhook", url="https://thief.example/")
    assert "The host has changed" in str(errors(response)["key"])
    assert AlertRecipient.objects.get().host == "https://hooks.example"


def test_another_channel_needs_its_own_secrets(administrator: Client) -> None:
    add(administrator, channel="webhook", key=f"Bearer {SECRET}")
    response = change(administrator, channel="pagerduty", url="")
    assert "Enter the routing key" in str(errors(response)["__all__"])
    change(administrator, channel="pagerduty", url="", key="R0UTE")
    made = AlertRecipient.objects.get()
    assert made.url() == "https://events.pagerduty.com/v2/enqueue"
    assert (made.key(), made.host) == ("R0UTE", "")
    change(administrator, channel="email", url="", addresses="a@b.example")
    made.refresh_from_db()
    assert (made.url_secret, made.key_secret) == ("", "")


def test_test_call_shows_the_answer(administrator: Client) -> None:
    with Peer(path=f"/{SECRET}") as hook:
        made = recipient("ops", url=hook.address, key=f"Bearer {SECRET}")
        where = url(AlertRecipient, "test", made.pk)
        assert administrator.get(where).context["tables"] == []
        assert list(hook.received) == []
        (table,) = administrator.post(where).context["tables"]
        assert "sent" in str(table.rows[0][0])
        assert len(hook.received) == 1
    (table,) = administrator.post(where).context["tables"]
    assert "not sent" in str(table.rows[0][0])
    assert "Connection refused" in str(table.rows[0][1])


def test_list_says_who_is_quiet_now(administrator: Client) -> None:
    today = timezone.now().isoweekday()
    days = "".join(sorted(f"{today}{today % 7 + 1}"))
    recipient("sleeper", Channel.EMAIL, addresses="a@b.example", quiet_all_day=days)
    recipient("awake", Channel.EMAIL, addresses="c@d.example", wait=15, step=2)
    page = administrator.get(url(AlertRecipient, "changelist")).content.decode()
    assert page.count("quiet now") == 1
    assert "at step 2, next after 15 min" in page


def test_list_names_those_of_the_settings(administrator: Client, settings: Settings) -> None:
    settings.MSH_OPERATORS_EMAIL = ["all@ops.example"]
    settings.MSH_OPERATORS_WEBHOOK = f"https://hooks.example/{SECRET}"
    page = administrator.get(url(AlertRecipient, "changelist")).content.decode()
    assert "all@ops.example" in page
    assert SECRET not in page


def test_supervisors_may_look_and_not_change(supervisor: Client) -> None:
    made = recipient("ops", Channel.EMAIL, addresses="a@b.example")
    assert supervisor.get(url(AlertRecipient, "changelist")).status_code == 200
    page = supervisor.get(url(AlertRecipient, "change", made.pk))
    assert page.status_code == 200
    assert "Send a test call" not in page.content.decode()
    assert supervisor.post(url(AlertRecipient, "test", made.pk)).status_code == 403
    assert add(supervisor).status_code == 403


def test_partner_of_a_recipient_is_not_deleted(administrator: Client) -> None:
    """Without it the recipient would be called about all partners."""
    partner = Partner.objects.create(name="acme", uri="http://acme.example/")
    made = recipient("ops", Channel.EMAIL, addresses="a@b.example", partners=[partner])
    where, agreed = url(Partner, "delete", partner.pk), {"post": "yes", "reason": "left"}
    assert "Alert recipient ops" in administrator.get(where).content.decode()
    administrator.post(where, agreed)
    assert list(made.partners.all()) == [partner]
    made.partners.clear()
    administrator.post(where, agreed)
    assert not Partner.objects.exists()


def test_partner_is_deleted_with_its_windows() -> None:
    partner = Partner.objects.create(name="acme", uri="http://acme.example/")
    open_links(partner)
    now = timezone.now()
    MaintenanceWindow.objects.create(partner=partner, starts_at=now, ends_at=now + DAY)
    client = client_with_role("adam", roles.ADMINISTRATOR)
    client.post(url(Partner, "delete", partner.pk), {"post": "yes", "reason": "left"})
    assert not Partner.objects.exists()


def test_recipient_is_deleted_with_a_reason(administrator: Client) -> None:
    made = recipient("ops", Channel.EMAIL, addresses="a@b.example")
    where = url(AlertRecipient, "delete", made.pk)
    refused = administrator.post(where, {"post": "yes"})
    assert "a reason is required" in messages_of(refused)
    administrator.post(where, {"post": "yes", "reason": "left"})
    assert not AlertRecipient.objects.exists()
    assert SettingChange.objects.latest("pk").reason == "left"
