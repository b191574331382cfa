"""Log-ins that are refused without end: nobody fills the audit log, nobody guesses for ever."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.test import Client

from msh import allowance
from msh.allowance import Delays, Known, LoginLimits, group_of, guesses
from msh.models import SettingChange
from msh.store.operations import settings_log
from msh.store.operations.settings_log import logged_in_lately

pytestmark = pytest.mark.django_db
RIGHT = "correct horse"


@pytest.fixture(autouse=True)
def limits(settings: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoginLimits]:
    """Of this test only, with passwords that cost nothing. No time passes."""
    monkeypatch.setattr(allowance, "time", SimpleNamespace(monotonic=lambda: 1_000_000.0))
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # type: ignore[attr-defined]
    guesses.forget()
    fresh = LoginLimits(Known(logged_in_lately, seconds=0))
    monkeypatch.setattr("msh.admin.framework.sessions.login_limits", fresh)
    yield fresh
    guesses.forget()  # its time is not that of other tests


def log_in(name: str, password: str, address: str = "203.0.113.9") -> int:
    form = {"username": name, "password": password}
    return Client(REMOTE_ADDR=address).post("/admin/login/", form).status_code


@pytest.mark.parametrize("names", [[""] * 25, [f"user-{n}" for n in range(25)]])
def test_refused_log_ins_are_a_handful_of_entries_and_then_429(names: list[str]) -> None:
    statuses = [log_in(name, "guess") for name in names]
    assert statuses[0] == 200
    assert statuses[-1] == 429
    assert SettingChange.objects.count() <= 6


def test_an_empty_form_is_no_entry() -> None:
    assert log_in("", "") == log_in("ann", "") == log_in("", "guess") == 200
    assert not SettingChange.objects.exists()


def test_a_refused_log_in_says_its_error_only() -> None:
    """F26 of the review of the console: "Not saved. Correct the error:" above the sentence."""
    form = {"username": "ann", "password": "guess"}
    page = Client().post("/admin/login/", form).content.decode()
    assert "Please enter the correct username and password" in page
    assert "Not saved" not in page


def test_addresses_of_one_ipv6_network_are_one() -> None:
    statuses = [log_in(f"user-{n}", "guess", f"2001:db8::{n:x}") for n in range(1, 25)]
    assert statuses[-1] == 429
    assert log_in("ann", "guess", "2001:db8:1::1") == 200
    assert group_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert group_of("2001:db8::ffff") == "2001:db8::/64"


def test_entries_of_all_addresses_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_log, "OF_ALL", 10)
    for n in range(15):
        log_in(f"user-{n}", "guess", f"198.51.100.{n}")
    assert SettingChange.objects.count() == 10


def test_guessers_of_one_name_have_to_wait_longer_each_time() -> None:
    """From many addresses. Who has logged in from an address before goes on from there."""
    User.objects.create_superuser("admin", password=RIGHT)
    assert log_in("admin", RIGHT, "192.0.2.7") == 302
    statuses = [log_in("admin", "guess", f"203.0.113.{n}") for n in range(40)]
    assert set(statuses[:10]) == {200}
    assert 429 in statuses
    assert log_in("admin", RIGHT, "192.0.2.7") == 302
    assert log_in("admin", RIGHT, "192.0.2.8") == 302  # the success has ended it


NAT = "203.0.113.9"


def test_guesser_behind_a_nat_stops_nobody_who_has_logged_in_from_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also in a process that has just begun: who has, is in the audit log."""
    User.objects.create_superuser("ann", password=RIGHT)
    assert log_in("ann", RIGHT, NAT) == 302
    assert 429 in [log_in(f"user-{n}", "guess", NAT) for n in range(30)]
    assert log_in("ann", RIGHT, NAT) == 302
    restarted = LoginLimits(Known(logged_in_lately))
    monkeypatch.setattr("msh.admin.framework.sessions.login_limits", restarted)
    assert log_in("ann", RIGHT, NAT) == 302
    assert log_in("bob", RIGHT, NAT) == 429


def test_guesser_of_a_known_name_from_its_address_has_to_wait() -> None:
    User.objects.create_superuser("ann", password=RIGHT)
    assert log_in("ann", RIGHT, NAT) == 302
    assert 429 in [log_in("ann", "guess", NAT) for _ in range(30)]


def test_delays_grow_to_their_bound_and_end() -> None:
    delays = Delays(free=2, longest=60)
    for now in (0.0, 1.0):
        assert delays.wait("ann", now) == 0
        delays.fail("ann", now)
    waits = []
    now = 1.0
    for _ in range(8):
        waits.append(delays.wait("ann", now))
        now += waits[-1]
        assert delays.wait("ann", now) == 0
        delays.fail("ann", now)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert delays.wait("bob", now) == 0
    delays.forget("ann")
    assert delays.wait("ann", now) == 0


def test_the_number_of_names_that_is_remembered_has_a_bound() -> None:
    delays = Delays(free=1, longest=60)
    for n in range(allowance.REMEMBERED + 10):
        delays.fail(f"user-{n}", 0.0)
    assert delays.wait("user-0", 0.0) == 0


def test_page_says_how_long_to_wait() -> None:
    for _ in range(20):
        log_in("", "")
    answer = Client(REMOTE_ADDR="203.0.113.9").post("/admin/login/", {"username": "ann"})
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) >= 1
    assert "Too many log-ins were refused" in answer.content.decode()
