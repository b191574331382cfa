"""A wrong setting is said at the start, in one sentence."""

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.checks import run_checks
from django.db import connection

from msh import checks
from partners.models import Agreement, Channel, Partner
from tests.certificates import Authority
from tests.keys import decrypting, environment, new_key, pem_of


def ids() -> list[str | None]:
    return [message.id for message in run_checks()]


def test_settings_of_the_tests_are_fine() -> None:
    assert ids() == []


def test_database_has_to_be_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        django_settings.DATABASES["default"], "ENGINE", "django.db.backends.sqlite3"
    )
    assert ids() == ["msh.E001"]


def test_option_of_the_database_that_libpq_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(django_settings.DATABASES["default"]["OPTIONS"], "sslmod", "verify-full")
    (found,) = run_checks()
    assert found.id == "msh.E009"
    assert "sslmod" in found.msg


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("synchronous_commit", "off", ["msh.E011"]),
        ("synchronous_commit", "remote_apply", []),
        ("lock_timeout", "0", ["msh.W003"]),
        ("idle_in_transaction_session_timeout", "0", ["msh.W003"]),
        ("lock_timeout", "9s", []),
    ],
)
def test_session_that_is_not_as_we_asked(setting: str, value: str, expected: list[str]) -> None:
    """As behind a pooler that drops what clients ask for at their start."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL {setting} = '{value}'")
    found = run_checks(tags=["database"], databases=["default"])
    assert [message.id for message in found] == expected
    assert [setting in message.msg for message in found] == [True] * len(expected)


@pytest.mark.django_db
def test_warnings_are_logged_where_a_process_starts(caplog: pytest.LogCaptureFixture) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = 0")
    checks.require()
    assert "Sessions have no lock_timeout" in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "check"),
    [
        ("MSH_URI", "", "msh.E002"),
        ("MSH_URI", "msh.example/ebxml", "msh.E002"),
        ("MSH_ERROR_URI", "ftp://msh.example/", "msh.E002"),
        ("MSH_FERNET_KEYS", [], "msh.E003"),
        ("MSH_FERNET_KEYS", ["too short"], "msh.E004"),
        ("MSH_SIGNING_KEY", ["/no/such/file"], "msh.E024"),
        ("MSH_DECRYPTION_KEY", ["/no/such/file"], "msh.E025"),
        ("MSH_CLIENT_CERTIFICATE_HEADER", "X-Client-Certificate", "msh.E027"),
        ("MSH_CLIENT_CERTIFICATE", "/no/such/file", "msh.E026"),
        ("MSH_CLIENT_KEY", "/no/such/file", "msh.E026"),
        ("MSH_CA_BUNDLE", "/no/such/file", "msh.E026"),
        ("MSH_TLS_CIPHERS", "NO-SUCH", "msh.E026"),
        ("MSH_DISK_PATH", "/no/such/folder", "msh.E005"),
        ("MSH_API_RATE", "200 per second", "msh.E008"),
        ("MSH_SECOND_PERSON", ["restart"], "msh.E016"),
        ("MSH_TIME_ZONE", "Europe/Madri", "msh.E017"),
        ("MSH_OTLP_ENDPOINT", "collector:4318", "msh.E018"),
        ("MSH_TRACES_SHARE", 10.0, "msh.E020"),
    ],
)
def test_wrong_setting_is_an_error(settings: Any, name: str, value: object, check: str) -> None:
    setattr(settings, name, value)
    assert ids() == [check]


@pytest.mark.parametrize("uri", ["https://msh.example/ebxml/", "mailto:ebxml@msh.example"])
def test_addresses_that_partners_can_send_to(settings: Any, uri: str) -> None:
    settings.MSH_URI = uri
    assert ids() == []


@pytest.mark.django_db
def test_a_client_certificate_that_is_gone_is_called_out(settings: Any, tmp_path: Path) -> None:
    named = {"name": "acme", "uri": "http://a.example/", "client_certificate": "ours"}
    Partner.objects.create(**named)
    settings.MSH_CLIENT_CERTIFICATES = str(tmp_path)
    (found,) = checks.check_deployment(None)
    why = f"{tmp_path}/ours.pem: No such file or directory"
    assert found.id == "msh.W011"
    assert found.msg == f"Partner acme is to be shown our client certificate ours: {why}."
    Authority().write(tmp_path / "ours.pem", "us")
    assert checks.check_deployment(None) == []


@pytest.mark.django_db
@pytest.mark.parametrize("by_channel", [False, True])
def test_agreements_that_need_a_key_of_ours_are_called_out(
    settings: Any, tmp_path: Path, by_channel: bool
) -> None:
    partner = Partner.objects.create(name="acme", uri="http://a.example/")
    wanted = {"signed": True, "encrypted": True}
    terms = {"certificate": pem_of(new_key("them"))} | ({} if by_channel else wanted)
    agreement = Agreement.objects.create(partner=partner, dialect="ebms2", tpa_id="cpa", **terms)
    if by_channel:
        about = {"direction": "in", "service": "urn:orders", "action": "New"}
        Channel.objects.create(agreement=agreement, **about, **wanted)
    found = checks.check_deployment(None)
    assert [one.id for one in found] == ["msh.W007", "msh.W008"]
    assert "MSH_DECRYPTION_KEY is not set" in found[1].msg

    ours = [new_key("us")]
    for name, value in (environment(tmp_path, ours) | decrypting(tmp_path, ours)).items():
        setattr(settings, name, [value])
    assert checks.check_deployment(None) == []
    Agreement.objects.update(signature_method="ecdsa-sha256")
    (found_last,) = checks.check_deployment(None)
    assert (found_last.id, "ecdsa-sha256 needs an EC key" in found_last.msg) == ("msh.W007", True)
