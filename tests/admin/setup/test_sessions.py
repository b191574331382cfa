"""Sessions end, can be ended, and log-ins are in the audit log."""

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from msh.models import SettingChange
from tests.admin.conftest import client_of

pytestmark = pytest.mark.django_db

LOGIN, SESSIONS = "/admin/login/", "/admin/sessions/"
PASSWORD = "a long enough secret"


def made(name: str) -> User:
    return User.objects.create_user(name, password=PASSWORD, is_staff=True)


def log_in(name: str, password: str = PASSWORD) -> Client:
    client = Client()
    client.post(LOGIN, {"username": name, "password": password})
    return client


def log() -> list[tuple[str, str]]:
    entries = SettingChange.objects.filter(kind="Log-in").order_by("pk")
    return [(one.name, one.after["event"]) for one in entries]


def test_who_comes_and_goes_is_in_the_audit_log() -> None:
    made("ann")
    client = log_in("ann")
    client.post("/admin/logout/")
    log_in("eve", "guessed")
    assert log() == [
        ("ann", "logged in"),
        ("ann", "logged out"),
        ("eve", "refused: wrong name or password"),
    ]
    (first, *_) = SettingChange.objects.filter(kind="Log-in")
    assert (first.actor, first.after["address"]) == ("ann", "127.0.0.1")


def test_a_lockout_is_one_entry() -> None:
    for _ in range(8):
        log_in("ann", "guessed")
    assert [event for _, event in log()] == [
        *["refused: wrong name or password"] * 4,
        "locked: too many wrong passwords",
    ]


def test_only_what_a_person_does_lengthens_a_session() -> None:
    made("ann")
    client = log_in("ann")
    key = client.session.session_key
    Session.objects.filter(pk=key).update(session_data=_older(client))
    before = Session.objects.get(pk=key).session_data

    client.get("/admin/", headers={"HX-Request": "true"})
    assert Session.objects.get(pk=key).session_data == before
    client.get("/admin/")
    assert Session.objects.get(pk=key).session_data != before
    again = Session.objects.get(pk=key).session_data
    client.get("/admin/")
    assert Session.objects.get(pk=key).session_data == again  # not with each page


def _older(client: Client) -> str:
    session = client.session
    session["msh_seen"] -= 120
    session.save()
    return Session.objects.get(pk=session.session_key).session_data


def test_sessions_are_listed_and_ended() -> None:
    made("ann")
    ann = log_in("ann")
    boss = client_of("bob", "view_user", "change_user")
    assert ann.get(SESSIONS).content.decode().count("End session") == 1
    page = boss.get(SESSIONS)
    assert str(ann.session.session_key) not in page.content.decode()
    (name,) = (one.name for one in page.context["sessions"] if one.user.username == "ann")

    boss.post(SESSIONS, {"session": name})

    assert ann.get("/admin/").status_code == 302
    assert log()[-1] == ("ann", "session ended")
    assert SettingChange.objects.latest("pk").actor == "bob"


def test_nobody_sees_or_ends_the_session_of_another_without_permission() -> None:
    made("ann")
    made("eve")
    ann, eve = log_in("ann"), log_in("eve")
    viewer = client_of("vic", "view_user")
    (name,) = (
        one.name for one in viewer.get(SESSIONS).context["sessions"] if one.user.username == "ann"
    )
    assert {one.user.username for one in eve.get(SESSIONS).context["sessions"]} == {"eve"}
    for client in (eve, viewer):
        client.post(SESSIONS, {"session": name})
    assert ann.get("/admin/").status_code == 200
