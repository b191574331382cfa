"""Operators are called: over a real mail host and a real HTTP server, once for each cause."""

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from email import message_from_bytes
from email.message import Message
from typing import Any

import pytest
from django.db.models.expressions import RawSQL
from django.utils import timezone
from pytest_django import Settings

from msh.alerts.flows.call import Call, call_of
from msh.alerts.flows.notify_operators import TRIES, notify_operators
from msh.alerts.models import OperatorNotice
from msh.flows.operations import change_link, prune
from msh.flows.operations.watch import find_stuck
from msh.models import Incident, OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store.history import Actor
from tests.admin.conftest import REFUSED, suspended_world
from tests.flows.world import World, late_world, make_world
from tests.peer import Peer, status
from tests.peer.mailbox import Mailbox

pytestmark = pytest.mark.django_db

DOWN = AttemptResult(AttemptOutcome.FAILED, status=503, detail="503 down for maintenance")
REFUSED_PERMANENTLY = "The partner refused the message permanently"
SECRET = "T0K3N-of-the-hook"


@pytest.fixture
def mailbox(settings: Settings) -> Iterator[Mailbox]:
    with Mailbox(auth=False) as mailbox:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mailbox.port
        settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.EMAIL_TIMEOUT = 1
        settings.MSH_OPERATORS_EMAIL = ["night@ops.example", "day@ops.example"]
        settings.MSH_CONSOLE_URL = "https://console.example/admin/"
        yield mailbox


@pytest.fixture
def hook(settings: Settings) -> Iterator[Peer]:
    with Peer(path=f"/{SECRET}") as peer:
        settings.MSH_OPERATORS_WEBHOOK = peer.address
        settings.MSH_OPERATORS_WEBHOOK_AUTHORIZATION = f"Bearer {SECRET}"
        yield peer


def posted(hook: Peer) -> list[list[dict[str, Any]]]:
    """What came, the notices of each POST."""
    return [json.loads(one.body)["notices"] for one in hook.received]


def subject_of(mail: Message) -> str:
    """On one line."""
    return str(mail["Subject"]).replace("\r\n", "")


def due_again() -> None:
    OperatorNotice.objects.update(due=timezone.now() - timedelta(seconds=1))


@pytest.mark.requirement("000-023", "000-032")
def test_incident_is_notified_by_mail_and_webhook(mailbox: Mailbox, hook: Peer) -> None:
    world = suspended_world()
    incident = Incident.objects.get()

    assert notify_operators() == 2

    (transaction,) = mailbox.transactions
    mail = message_from_bytes(transaction.mail)
    body = mail.get_payload(decode=True).decode()  # type: ignore[union-attr]
    page = f"https://console.example/admin/msh/incident/{incident.pk}/change/"
    assert subject_of(mail) == f"[MSH] critical: {world.there}: {REFUSED_PERMANENTLY}"
    assert mail["To"] == "night@ops.example, day@ops.example"
    assert "detail: 415 Unsupported Media Type: no <b>thanks</b>" in body
    assert f"message id: {incident.message_id}" in body
    assert f"console: {page}" in body
    (post,) = hook.received
    assert post.headers["Authorization"] == f"Bearer {SECRET}"
    assert post.headers["Content-Type"] == "application/json"
    document = json.loads(post.body)
    assert document["msh"] == "http://msh.example/ebxml/"
    (notice,) = document["notices"]
    assert notice["what"] == "refused_by_peer"
    assert notice["partner"] == world.there.name
    assert notice["console"] == page


def test_notice_of_silence_has_the_last_answer(mailbox: Mailbox, hook: Peer) -> None:
    world = make_world(retries=0)
    _, job = world.start()
    world.end(job, DOWN)
    OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now())
    world.poll()

    assert notify_operators() == 2

    words = "no Acknowledgement after 1 attempt; last answer: 503 down for maintenance"
    ((notice,),) = posted(hook)
    assert (notice["what"], notice["detail"]) == ("retries_spent", words)
    assert words in mailbox.transactions[0].mail.decode()


def test_answer_that_is_the_incident_is_shown_once(hook: Peer) -> None:
    suspended_world()

    notify_operators()

    ((notice,),) = posted(hook)
    assert notice["detail"] == REFUSED.detail


def test_cause_is_notified_once(mailbox: Mailbox, hook: Peer) -> None:
    suspended_world()
    Incident.objects.update(count=7)

    notify_operators()
    Incident.objects.update(count=8)

    assert notify_operators() == 0
    assert len(mailbox.transactions) == len(hook.received) == 1


def test_recurring_cause_is_notified_again(hook: Peer) -> None:
    world = suspended_world()
    notify_operators()
    change_link.resume(world.there, Actor("ann", "back"))
    world.post(AttemptResult(AttemptOutcome.REFUSED, status=400, detail="400 still not"))

    assert notify_operators() == 1
    assert [one["detail"] for (one,) in posted(hook)][1] == "400 still not"


def test_simultaneous_incidents_are_one_notification(mailbox: Mailbox, hook: Peer) -> None:
    worlds = [suspended_world(), suspended_world(), suspended_world()]

    assert notify_operators() == 6

    (transaction,) = mailbox.transactions
    subject = subject_of(message_from_bytes(transaction.mail))
    assert subject == f"[MSH] critical: {worlds[0].there}: {REFUSED_PERMANENTLY} and 2 more"
    ((*notices,),) = posted(hook)
    assert [one["partner"] for one in notices] == [world.there.name for world in worlds]


def test_stuck_link_is_notified_without_any_error(hook: Peer, settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 600
    world = make_world()
    world.submit()
    OutboundMessage.objects.update(submitted_at=timezone.now() - timedelta(minutes=11))
    find_stuck()

    notify_operators()

    ((notice,),) = posted(hook)
    assert (notice["what"], notice["partner"]) == ("stuck", world.there.name)
    assert "no progress since" in notice["detail"]


@pytest.mark.parametrize(("spent", "warned"), [(1, False), (2, True)])
def test_a_late_message_is_an_early_warning(hook: Peer, spent: int, warned: bool) -> None:
    """At which retry: test_notices.py."""
    world = late_world(spent)

    assert notify_operators() == warned
    assert notify_operators() == 0  # once
    if warned:
        ((notice,),) = posted(hook)
        assert notice["what"] == "early_warning"
        assert notice["message_id"] == OutboundMessage.objects.get().message_id
        assert f"{spent} of 4 retries spent" in notice["detail"]
        assert notice["console"].endswith(f"/msh/outboundlink/{world.link.pk}/change/")
    assert not Incident.objects.exists()


def test_a_doubtful_answer_is_an_early_warning_at_once(world: World, hook: Peer) -> None:
    _, job = world.start()
    doubted = AttemptResult(AttemptOutcome.DOUBTED, status=403, detail="403 Forbidden")
    world.end(job, doubted)

    notify_operators()

    ((notice,),) = posted(hook)
    assert notice["what"] == "early_warning"
    assert "last answer: 403 Forbidden" in notice["detail"]


def test_failed_notice_is_sent_later(mailbox: Mailbox, hook: Peer) -> None:
    suspended_world()
    mailbox.script("DATA", "451 come later")
    hook.script(status(503, reason="closed"))

    assert notify_operators() == 0
    assert notify_operators() == 0  # not due yet
    errors = OperatorNotice.objects.order_by("channel").values_list("error", flat=True)
    assert "451" in errors[0]
    assert errors[1] == "WebhookFailed: 503 closed"
    due_again()

    assert notify_operators() == 2
    assert set(OperatorNotice.objects.values_list("tries", "error")) == {(2, "")}


def test_the_wait_grows_and_ends(hook: Peer) -> None:
    suspended_world()
    hook.always(status(500))
    waits = []
    for _ in range(3):
        due_again()
        notify_operators()
        notice = OperatorNotice.objects.get()
        waits.append(round((notice.due - timezone.now()).total_seconds()))
    assert waits == [30, 60, 120]
    OperatorNotice.objects.update(tries=TRIES - 1)

    due_again()
    notify_operators()
    due_again()
    notify_operators()

    assert OperatorNotice.objects.get().given_up
    assert len(hook.received) == 4


def test_a_dead_mail_host_does_not_keep_the_webhook_waiting(mailbox: Mailbox, hook: Peer) -> None:
    suspended_world()
    mailbox.script("", None)  # says nothing for ever

    assert notify_operators() == 1
    assert len(hook.received) == 1


def test_a_second_caller_returns_at_once(hook: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    suspended_world()
    counted: list[int] = []

    def posting(*_: object) -> str:
        counted.append(notify_operators())
        return ""

    monkeypatch.setattr("msh.alerts.flows.channels.post", posting)

    assert notify_operators() == 1
    assert counted == [0]


def test_no_recipients_no_notices(settings: Settings) -> None:
    suspended_world()

    assert notify_operators() == 0
    assert not OperatorNotice.objects.exists()


def test_earlier_incidents_are_not_notified(settings: Settings) -> None:
    suspended_world()
    notify_operators()

    with Peer() as hook:
        settings.MSH_OPERATORS_WEBHOOK = hook.address
        assert notify_operators() == 0
        assert list(hook.received) == []


def test_no_secret_is_logged(
    settings: Settings, hook: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    suspended_world()
    wrong = (status(401), status(302))
    hook.script(*wrong)
    with caplog.at_level(logging.DEBUG):
        for address in (
            hook.address,
            hook.address,
            f"http://[{SECRET}",
            f"http://x:99999/{SECRET}",
        ):
            settings.MSH_OPERATORS_WEBHOOK = address
            due_again()
            assert notify_operators() == 0

    assert len([one for one in caplog.records if "did not reach" in one.getMessage()]) == 4
    assert SECRET not in caplog.text
    assert SECRET not in OperatorNotice.objects.get().error


def test_calls_are_pruned_with_their_incident(hook: Peer) -> None:
    late_world(2)
    suspended_world()
    notify_operators()
    long_ago = timezone.now() - timedelta(days=800)
    Incident.objects.update(resolved_at=long_ago)
    OperatorNotice.objects.update(at=long_ago)

    removed = prune.prune_all()

    assert (removed["incidents"], removed["early warnings"]) == (1, 1)
    assert not OperatorNotice.objects.exists()


# --- one that raises stops no other ---------------------------------------------------------------


def test_notice_that_cannot_be_sent_blocks_no_other(
    mailbox: Mailbox, hook: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, other = suspended_world(), suspended_world()

    def raising(notice: OperatorNotice) -> Call:
        if notice.partner == broken.there:
            raise RuntimeError("what nobody has thought of")
        return call_of(notice)

    monkeypatch.setattr("msh.alerts.flows.notify_operators.call_of", raising)
    assert notify_operators() == 2

    (mail,) = mailbox.transactions
    assert other.there.name.encode() in mail.mail
    ((notice,),) = posted(hook)
    assert notice["partner"] == other.there.name
    left = OperatorNotice.objects.filter(sent_at=None)
    assert {(one.partner, one.error) for one in left} == {
        (broken.there, "RuntimeError: what nobody has thought of")
    }


@pytest.mark.parametrize("terms", ["'{}'", """terms || '{"retries": "many"}'"""])
def test_terms_that_cannot_be_read_keep_no_operator_from_being_called(
    mailbox: Mailbox, terms: str
) -> None:
    late_world(2)
    OutboundMessage.objects.update(terms=RawSQL(terms, ()))
    suspended_world()
    late_world(2)

    assert notify_operators() == 2
