"""Alert recipients in the document of `manage.py setup`."""

import json
from datetime import time
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from msh.alerts.models import AlertRecipient
from msh.models import SettingChange
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

DESK = {
    "name": "desk",
    "channel": "email",
    "addresses": "desk@example.net",
    "role": "Operator",
    "severity": "critical",
    "step": 2,
    "wait": 15,
    "quiet_from": "22:00",
    "quiet_until": "07:00",
    "quiet_days": "12345",
    "time_zone": "Europe/Madrid",
    "on_end": True,
}
HOOK = {"name": "hook", "channel": "webhook", "url": "https://hooks.example/x", "key": "Bearer 1"}


@pytest.fixture
def apply(tmp_path: Path) -> Any:
    """Apply a document with these recipients: what changed, one line each."""

    def with_recipients(*recipients: dict[str, Any]) -> list[str]:
        file = tmp_path / "document.json"
        file.write_text(json.dumps({"recipients": recipients}))
        out = tmp_path / "answer"
        with out.open("w") as stream:
            call_command("setup", file, stdout=stream)
        return out.read_text().splitlines()

    return with_recipients


def test_recipients_are_added_once_and_updated(apply: Any) -> None:
    partner = make_world().there
    desk = {**DESK, "partners": [partner.name]}
    assert apply(desk, HOOK) == ["recipient desk: added", "recipient hook: added"]
    made = AlertRecipient.objects.get(name="desk")
    assert (made.at_least, made.step, made.wait, made.on_end) == ("critical", 2, 15, True)
    assert (made.quiet_from, made.quiet_until, made.quiet_days) == (time(22), time(7), "12345")
    assert (made.role and made.role.name, list(made.partners.all())) == ("Operator", [partner])
    hook = AlertRecipient.objects.get(name="hook")
    assert (hook.url(), hook.key(), hook.host) == (
        *("https://hooks.example/x", "Bearer 1", "https://hooks.example"),
    )
    assert apply(desk, HOOK) == ["recipient desk: unchanged", "recipient hook: unchanged"]
    assert apply({"name": "desk", "wait": 30, "partners": [], "quiet_from": "", "quiet_until": ""})
    made.refresh_from_db()
    assert (made.wait, made.quiet, made.partners.count(), made.step) == (30, None, 0, 2)
    logged = SettingChange.objects.filter(kind="Alert recipient").latest("pk")
    assert logged.after["wait"] == 30
    assert "hooks.example/x" not in json.dumps(list(SettingChange.objects.values("after")))


def test_a_key_is_not_sent_to_another_host_unless_it_is_given_again(apply: Any) -> None:
    apply(HOOK)
    moved = {"name": "hook", "url": "https://other.example/x"}
    with pytest.raises(CommandError, match="the host changes: give the key again"):
        apply(moved)
    assert AlertRecipient.objects.get().host == "https://hooks.example"
    assert apply({**moved, "key": "Bearer 2"}) == ["recipient hook: updated (url, key)"]
    assert AlertRecipient.objects.get().key() == "Bearer 2"


@pytest.mark.parametrize(
    "url",
    ["htps://hooks.example/SECRET", "//hooks.example/SECRET", "https://hooks.example:0/SECRET"],
)
def test_a_wrong_url_is_refused_without_showing_it(apply: Any, url: str) -> None:
    with pytest.raises(CommandError, match=r"recipients\[0\].url: .*not a URL to POST to") as wrong:
        apply({**HOOK, "url": url})
    assert "SECRET" not in str(wrong.value)
    assert not AlertRecipient.objects.exists()


def test_what_is_wrong_is_named_and_nothing_is_changed(apply: Any) -> None:
    wrongs: dict[str, tuple[dict[str, Any], str]] = {
        "role": ({"role": "Nobody"}, "there is no role 'Nobody'. Roles: Administrator, "),
        "partners": ({"partners": ["x"]}, r"partners\[0\]: there is no partner 'x'"),
        "time": ({"quiet_from": "late"}, "quiet_from: write hours and minutes"),
        "one end": ({"quiet_until": ""}, "Enter both the beginning and the end of the quiet hours"),
        "channel": ({"channel": "fax"}, "channel: Value 'fax' is not a valid choice"),
        "severity": ({"severity": "high"}, "severity: Value 'high' is not a valid choice"),
        "key": ({"colour": "red"}, "colour: is not known"),
        "address": ({"addresses": "", "role": ""}, "Enter an e-mail address"),
        "name": ({"name": ""}, r"recipients\[0\].name: is missing"),
    }
    for wrong, why in wrongs.values():
        with pytest.raises(CommandError, match=why):
            apply({**DESK, **wrong})
        assert not AlertRecipient.objects.exists()
