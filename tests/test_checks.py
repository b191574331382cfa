"""A wrong setting is said at the start, in one sentence."""

from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.checks import run_checks


def ids() -> list[str | None]:
    return [message.id for message in run_checks()]


def test_settings_of_the_tests_are_fine() -> None:
    assert ids() == []


def test_database_has_to_be_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        django_settings.DATABASES["default"], "ENGINE", "django.db.backends.sqlite3"
    )
    assert ids() == ["msh.E001"]


@pytest.mark.parametrize(
    ("name", "value", "check"),
    [
        ("MSH_URI", "", "msh.E002"),
        ("MSH_URI", "msh.example/ebxml", "msh.E002"),
        ("MSH_ERROR_URI", "ftp://msh.example/", "msh.E002"),
        ("MSH_FERNET_KEYS", [], "msh.E003"),
        ("MSH_FERNET_KEYS", ["too short"], "msh.E004"),
        ("MSH_DISK_PATH", "/no/such/folder", "msh.E005"),
        ("MSH_API_RATE", "200 per second", "msh.E007"),
    ],
)
def test_wrong_setting_is_an_error(settings: Any, name: str, value: object, check: str) -> None:
    setattr(settings, name, value)
    assert ids() == [check]


@pytest.mark.parametrize("uri", ["https://msh.example/ebxml/", "mailto:ebxml@msh.example"])
def test_addresses_that_partners_can_send_to(settings: Any, uri: str) -> None:
    settings.MSH_URI = uri
    assert ids() == []
