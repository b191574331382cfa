"""Codes of an app beside the password."""

import base64
import hmac
import struct
import time
from typing import Any

import pytest
from axes.models import AccessAttempt
from cryptography.fernet import Fernet
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import Group, User
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from time_machine import travel

from msh.flows.operations.rotate_keys import rotate_keys
from msh.models import SettingChange
from tests.sign_on.provider import Provider
from tests.sign_on.test_sign_on import sign_on

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tables", "cheap_passwords")]

ASK, SET_UP, PASSWORD = "/admin/second-factor/", "/admin/second-factor/set-up/", "a long secret"
LINKS = "/admin/msh/outboundlink/"


@pytest.fixture
def cheap_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def user(role: str = "Supervisor") -> User:
    made = User.objects.create_user("sue", password=PASSWORD, is_staff=True)
    made.groups.add(Group.objects.get(name=role))
    return made


def log_in(address: str = "127.0.0.1") -> Client:
    client = Client(REMOTE_ADDR=address)
    client.post("/admin/login/", {"username": "sue", "password": PASSWORD})
    return client


def code(secret: str, half_minutes: int = 0) -> str:
    """As the app computes it (RFC 6238)."""
    counter = struct.pack(">Q", int(time.time()) // 30 + half_minutes)
    digest = hmac.digest(base64.b32decode(secret), counter, "sha1")
    (number,) = struct.unpack_from(">I", digest, digest[-1] & 15)
    return f"{(number & 0x7FFFFFFF) % 1_000_000:06}"


def set_up(client: Client) -> tuple[str, list[str]]:
    """The secret, and the recovery codes."""
    secret = client.get(SET_UP).context["secret"]
    done = client.post(SET_UP, {"code": code(secret)})
    return secret, done.context["codes"]


def log() -> list[str]:
    entries = SettingChange.objects.filter(kind="Log-in").order_by("pk")
    return [one.after["event"] for one in entries]


def where(answer: Any) -> str:
    return str(answer.headers.get("Location", "")).partition("?")[0]


def test_who_has_the_role_sees_nothing_before_it_is_set_up() -> None:
    user()
    client = log_in()
    for page in ("/admin/", LINKS, "/admin/sessions/", "/admin/search-all/?q=x"):
        assert where(client.get(page)) == SET_UP
    assert where(client.post("/admin/sessions/", {"session": "x"})) == SET_UP
    secret, codes = set_up(client)
    assert len(codes) == len(set(codes)) == 10
    assert client.get("/admin/sessions/").status_code == 200
    assert log() == ["logged in", "second factor: set up"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT data::text FROM mfa_authenticator")
        stored = str(cursor.fetchall())
    assert [one for one in (secret, *codes) if one in stored] == []  # encrypted


def test_each_log_in_asks_for_a_code_that_was_not_used() -> None:
    user()
    with travel("2026-11-23 09:00:10Z", tick=False) as clock:
        secret, _ = set_up(log_in())
        client = log_in()
        assert where(client.get(LINKS)) == ASK
        used = client.post(ASK, {"code": code(secret)})  # it has set the factor up
        assert used.status_code == 200
        assert where(client.get(LINKS)) == ASK
        clock.shift(30)
        there = client.post(f"{ASK}?next={LINKS}", {"code": code(secret)})
        assert where(there) == LINKS
        assert client.get("/admin/sessions/").status_code == 200
        other = log_in()
        assert other.post(ASK, {"code": code(secret)}).status_code == 200
        assert other.post(ASK, {"code": code(secret, -1)}).status_code == 200
        assert other.post(ASK, {"code": code(secret, 1)}).status_code == 302
    assert "second factor: a code of the app" in log()
    assert "refused: wrong code of the second factor" in log()


def test_recovery_code_is_used_up() -> None:
    user()
    _, codes = set_up(log_in())
    assert log_in().post(ASK, {"code": codes[0]}).status_code == 302
    assert log()[-1] == "second factor: a recovery code"
    assert log_in().post(ASK, {"code": codes[0]}).status_code == 200
    assert log_in().post(ASK, {"code": codes[1]}).status_code == 302


def test_wrong_codes_lock_as_wrong_passwords_do() -> None:
    user()
    secret, _ = set_up(log_in())
    client = log_in()
    statuses = [client.post(ASK, {"code": "000000"}).status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 200, 429]
    client.post(ASK, {"code": code(secret, 1)})
    assert SESSION_KEY not in client.session
    locked = Client().post("/admin/login/", {"username": "sue", "password": PASSWORD})
    assert locked.status_code == 429


def test_wrong_codes_are_counted_over_all_addresses() -> None:
    user()
    with travel("2026-11-23 09:00:10Z", tick=False) as clock:
        secret, codes = set_up(log_in())
        for last in range(10):
            log_in(f"192.0.2.{last}").post(ASK, {"code": "000000"})
        clock.shift(60)
        other = log_in("192.0.2.99")
        for right in (code(secret), codes[0]):
            page = other.post(ASK, {"code": right})
            assert (page.status_code, "until 09:15 UTC" in page.content.decode()) == (429, True)
        clock.shift(15 * 60)
        assert other.post(ASK, {"code": "000000"}).status_code == 200
        assert other.post(ASK, {"code": code(secret)}).status_code == 302
    with connection.cursor() as cursor:
        cursor.execute("SELECT data->'wrong' FROM mfa_authenticator WHERE type = 'totp'")
        assert cursor.fetchall() == [(None,)]


def test_five_wrong_codes_end_the_session_from_whatever_address() -> None:
    user()
    set_up(log_in())
    client = log_in()
    for last in range(5):
        page = client.post(ASK, {"code": "000000"}, REMOTE_ADDR=f"192.0.2.{last}")
    assert (page.status_code, SESSION_KEY in client.session) == (403, False)
    assert "Log in again" in page.content.decode()


def test_what_was_typed_is_not_stored() -> None:
    user()
    set_up(log_in())
    log_in().post(ASK, {"code": "123454", "csrfmiddlewaretoken": "of-a-form"})
    stored = str(AccessAttempt.objects.values().get())
    assert "csrfmiddlewaretoken=***" in stored
    assert [typed for typed in ("123454", "of-a-form") if typed in stored] == []


def test_who_has_another_role_is_not_asked_unless_he_has_one() -> None:
    user("Viewer")
    client = log_in()
    assert client.get("/admin/sessions/").status_code == 200
    set_up(client)
    assert where(log_in().get(LINKS)) == ASK


def test_superuser_has_every_role() -> None:
    User.objects.create_superuser("sue", password=PASSWORD)
    assert where(log_in().get(LINKS)) == SET_UP


def test_second_factor_is_removed_with_a_code_only() -> None:
    user()
    client = log_in()
    secret, codes = set_up(client)
    assert where(log_in().get(SET_UP)) == ASK  # the password is not enough
    assert client.post(SET_UP, {"code": "000000"}).status_code == 200
    assert where(client.post(SET_UP, {"code": codes[3]})) == SET_UP
    assert where(client.get(LINKS)) == SET_UP
    assert log()[-1] == "second factor: removed"
    again, _ = set_up(client)
    assert again != secret


def test_log_in_at_the_provider_is_not_asked_again(provider: Provider) -> None:
    provider.user["groups"] = ["msh-operators"]
    client = Client()
    sign_on(client)
    Group.objects.get(name="Supervisor").user_set.add(User.objects.get(username="ann"))
    assert client.get("/admin/sessions/").status_code == 200


def test_next_page_is_one_of_ours() -> None:
    user()
    _, codes = set_up(log_in())
    there = log_in().post(f"{ASK}?next=https://evil.example/", {"code": codes[0]})
    assert where(there) == "/admin/"


def test_keys_can_be_rotated(settings: Any) -> None:
    user()
    _, codes = set_up(log_in())
    new = Fernet.generate_key().decode()
    settings.MSH_FERNET_KEYS = [new, *settings.MSH_FERNET_KEYS]
    assert rotate_keys().rotated == 11  # the app's, and of each recovery code
    settings.MSH_FERNET_KEYS = [new]
    assert rotate_keys().current == 11
    assert log_in().post(ASK, {"code": codes[0]}).status_code == 302


def test_reset_ends_the_sessions_of_the_user(settings: Any) -> None:
    """The phone was stolen, with a session that is open: who has it sets up no device of his."""
    user()
    stolen = log_in()
    set_up(stolen)
    half_way = log_in()  # past the password
    other = Client()
    other.force_login(User.objects.create_superuser("ann", password=PASSWORD))
    other.get("/admin/")
    for path in (LINKS, "/admin/sessions/"):
        assert stolen.get(path).status_code == 200
    call_command("reset-second-factor", "sue", "--reason", "stolen phone")
    for client in (stolen, half_way):
        for path in (LINKS, "/admin/sessions/", SET_UP):
            assert where(client.get(path)) == "/admin/login/"
    assert SESSION_KEY in other.session
    assert where(log_in().get(LINKS)) == SET_UP


def test_session_that_has_passed_an_older_device_is_ended() -> None:
    """Also where the row of the session outlived the reset."""
    from msh.sign_on import second_factor  # noqa: PLC0415  its tables are of these tests

    sue = user()
    client = log_in()
    set_up(client)
    second_factor.remove(sue, keep=client.session.session_key)
    assert where(client.get(SET_UP)) == "/admin/login/"
    assert SESSION_KEY not in client.session


def test_removal_by_oneself_ends_the_other_sessions_only() -> None:
    user()
    client = log_in()
    _, codes = set_up(client)
    other = log_in()
    other.post(ASK, {"code": codes[0]})
    assert other.get("/admin/sessions/").status_code == 200
    client.post(SET_UP, {"code": codes[3]})
    assert where(client.get(LINKS)) == SET_UP
    assert where(other.get(LINKS)) == "/admin/login/"


def test_command_removes_it_for_who_has_lost_everything() -> None:
    user()
    set_up(log_in())
    call_command("reset-second-factor", "sue", "--reason", "lost phone")
    assert where(log_in().get(LINKS)) == SET_UP
    entry = SettingChange.objects.filter(kind="Log-in").order_by("pk")[2]
    assert (entry.after["event"], entry.reason) == (
        "second factor: removed by command",
        "lost phone",
    )
    with pytest.raises(CommandError, match="has no second factor"):
        call_command("reset-second-factor", "sue", "--reason", "again")


def test_role_that_does_not_exist_is_said(settings: Any) -> None:
    settings.MSH_SECOND_FACTOR = ["Supervisor", "Suprvisor", "all"]
    (found,) = run_checks(tags=["database"], databases=["default"])
    assert (found.id, "['Suprvisor']" in found.msg) == ("msh.W004", True)
