"""What each channel is sent, by a real HTTP server and a real mail host."""

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from email import message_from_bytes

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone
from pytest_django import Settings

from demo.stage import free_port
from msh.alerts.flows import bodies as made
from msh.alerts.flows import notify_operators as job
from msh.alerts.flows.call import Call, call_for_test
from msh.alerts.flows.channels import Target, send_test_call
from msh.alerts.flows.notify_operators import notify_operators
from msh.alerts.models import Channel, OperatorNotice
from msh.alerts.store import mark_sent
from msh.flows.errors import NotPossible
from msh.flows.operations import change_link
from msh.models import Incident
from msh.store.history import Actor
from tests.admin.conftest import suspended_world
from tests.peer import Peer, status
from tests.peer.mailbox import Mailbox

from .conftest import SECRET, bodies, name, recipient

pytestmark = pytest.mark.django_db

REFUSED = "The partner refused the message permanently"


def console_page(settings: Settings) -> str:
    base = settings.MSH_CONSOLE_URL.rstrip("/")
    return f"{base}/msh/incident/{Incident.objects.get().pk}/change/"


def test_webhook(hook: Peer, settings: Settings) -> None:
    recipient("ops", url=hook.address, key=f"Bearer {SECRET}")
    world = suspended_world()
    assert notify_operators() == 1

    (post,) = hook.received
    assert post.headers["Authorization"] == f"Bearer {SECRET}"
    (body,) = bodies(hook)
    (notice,) = body["notices"]
    wanted = {
        "partner": name(world),
        "severity": "critical",
        "what": "refused_by_peer",
        "problem": REFUSED,
        "state": "open",
        "console": console_page(settings),
    }
    assert {key: notice[key] for key in wanted} == wanted
    assert "cancel the message" in notice["what_to_do"]
    assert (body["msh"], body["digest"]) == (settings.MSH_URI, False)


def test_slack(hook: Peer, settings: Settings) -> None:
    recipient("ops", Channel.SLACK, url=hook.address)
    world = suspended_world()
    notify_operators()

    (body,) = bodies(hook)
    title = f"critical: {name(world)}: {REFUSED}"
    assert body["text"] == title
    header, section, context = body["blocks"]
    assert header == {"type": "header", "text": {"type": "plain_text", "text": title}}
    assert section["type"] == "section"
    text = section["text"]["text"]
    assert text.startswith(f"*<{console_page(settings)}|{title}>*\n*What to do:* ")
    assert "no &lt;b&gt;thanks&lt;/b&gt;" in text
    assert settings.MSH_URI in context["elements"][0]["text"]


def test_teams(hook: Peer, settings: Settings) -> None:
    recipient("ops", Channel.TEAMS, url=hook.address)
    world = suspended_world()
    notify_operators()

    (body,) = bodies(hook)
    assert body["type"] == "message"
    (attachment,) = body["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert card["actions"][0]["url"] == console_page(settings)
    (facts,) = [block["facts"] for block in card["body"] if block["type"] == "FactSet"]
    shown = {fact["title"]: fact["value"] for fact in facts}
    assert (shown["Partner"], shown["Severity"]) == (name(world), "critical")
    assert shown["What to do"]
    assert "no \\<b\\>thanks" in shown["Detail"]


def test_pagerduty_is_triggered_and_resolved_under_one_key(hook: Peer, settings: Settings) -> None:
    recipient("ops", Channel.PAGERDUTY, url=hook.address, key=SECRET)
    first, second = suspended_world(), suspended_world()
    assert notify_operators() == 2
    assert notify_operators() == 0
    change_link.resume(first.there, Actor("ann", "corrected"))
    assert notify_operators() == 1

    one, two, end = bodies(hook)
    key = f"{settings.MSH_URI} incident:{Incident.objects.earliest('pk').pk}"
    assert (one["event_action"], one["dedup_key"], one["routing_key"]) == ("trigger", key, SECRET)
    assert two["dedup_key"] != key
    payload = one["payload"]
    assert payload["summary"] == f"critical: {name(first)}: {REFUSED}"
    assert (payload["severity"], payload["source"]) == ("critical", settings.MSH_URI)
    assert payload["component"] == name(first)
    assert payload["custom_details"]["what_to_do"]
    assert one["links"][0]["href"].endswith("/change/")
    assert end == {"routing_key": SECRET, "event_action": "resolve", "dedup_key": key}
    assert notify_operators() == 0
    assert second.link.state == "suspended"


def test_event_that_is_not_taken_keeps_no_other_from_being_sent(hook: Peer) -> None:
    recipient("ops", Channel.PAGERDUTY, url=hook.address, key=SECRET)
    suspended_world()
    suspended_world()
    hook.script(status(202), status(400, reason="invalid event"))

    assert notify_operators() == 1
    error = OperatorNotice.objects.get(sent_at=None).error
    assert error.startswith("WebhookFailed: 400 invalid event")


def test_mail_goes_to_addresses_and_to_a_role(mailbox: Mailbox) -> None:
    role = Group.objects.get(name="Operator")
    for user, address, active in (("ann", "ann@ops.example", True), ("bob", "", True),
                               ("cy", "cy@ops.example", False)):  # fmt: skip
        made_user = User.objects.create_user(user, address, is_active=active)
        made_user.groups.add(role)
    recipient("ops", Channel.EMAIL, addresses="night@ops.example, ann@ops.example", role=role)
    suspended_world()
    assert notify_operators() == 1

    mail = message_from_bytes(mailbox.transactions[0].mail)
    assert mail["To"] == "night@ops.example, ann@ops.example"
    body = mail.get_payload(decode=True).decode()  # type: ignore[union-attr]
    assert f"problem: {REFUSED}" in body
    assert "severity: critical" in body
    assert "what to do: " in body


def test_mail_host_that_cannot_be_reached_is_named(mailbox: Mailbox, settings: Settings) -> None:
    """F24 of the review of the console: the operator saw `ConnectionRefusedError: [Errno 111]`."""
    settings.EMAIL_PORT = free_port(0)
    to = recipient("ops", Channel.EMAIL, addresses="a@ops.example")
    suspended_world()

    assert notify_operators() == 0

    said = f"The mail host 127.0.0.1:{settings.EMAIL_PORT}: Connection refused"
    assert OperatorNotice.objects.get().error == said
    with pytest.raises(NotPossible, match=said):
        send_test_call(to)


def test_role_without_a_mail_address_is_an_error_that_is_shown(mailbox: Mailbox) -> None:
    recipient("ops", Channel.EMAIL, role=Group.objects.get(name="Operator"))
    suspended_world()

    assert notify_operators() == 0
    error = OperatorNotice.objects.get().error
    assert error == "NoAddress: no active user with the role Operator has an e-mail address"


@pytest.mark.parametrize(
    ("channel", "key", "answers", "said"),
    [
        (Channel.WEBHOOK, "Bearer x", [status(200, reason="fine")], "200 fine"),
        (Channel.SLACK, "", [status(200, body=b"ok")], "200 OK ok"),
        (Channel.TEAMS, "", [status(202)], "202 Accepted"),
        (
            Channel.PAGERDUTY,
            SECRET,
            [status(202), status(202)],
            "202 Accepted; resolved: 202 Accepted",
        ),
    ],
)
def test_a_test_call_says_what_was_answered(
    hook: Peer, channel: str, key: str, answers: list[object], said: str
) -> None:
    hook.script(*answers)  # type: ignore[arg-type]
    assert send_test_call(recipient("ops", channel, url=hook.address, key=key)) == said
    assert not OperatorNotice.objects.exists()


def test_failed_test_call_says_why_and_no_secret(hook: Peer) -> None:
    hook.script(status(404, reason="no hook", body=f"/{SECRET} is not here".encode()))
    with pytest.raises(NotPossible, match=r"^WebhookFailed: 404 no hook /… is not here$"):
        send_test_call(recipient("ops", Channel.SLACK, url=hook.address))


def test_test_call_by_mail_names_the_mail_host(mailbox: Mailbox) -> None:
    said = send_test_call(recipient("ops", Channel.EMAIL, addresses="a@ops.example"))
    assert said == f"the mail host 127.0.0.1:{mailbox.port} accepted it for a@ops.example"
    assert "Subject: [MSH] info: (none): Test call" in mailbox.transactions[0].mail.decode()


def test_card_shows_the_first_and_counts_the_others() -> None:
    """Slack refuses more than 50 blocks, and texts of more than 3000 characters."""
    words = dict.fromkeys(("detail", "advice", "title"), "é<&" * 2000)
    numbers = {"notice": 1, "msh": "http://msh/", "partner": "acme", "severity": "info"}
    rest = {"what": "stuck", "message_id": "", "since": "", "key": ""}
    call = Call(**words, **numbers, **rest, console="http://c/msh/incident/1/change/")  # type: ignore[arg-type]

    card = made.slack([call] * 100, digest=True)
    assert len(card["blocks"]) == 12
    assert card["blocks"][0]["text"]["text"] == "100 notifications held back in quiet hours"
    assert {len(block["text"]["text"]) for block in card["blocks"][1:11]} == {3000}
    assert card["blocks"][-1]["elements"][0]["text"] == "http://msh/ · and 90 more"
    assert len(made.pagerduty(call, "key")["payload"]["summary"]) == 1024


@pytest.mark.parametrize(("length", "shown"), [(100, 10), (4000, 4)])
@pytest.mark.parametrize("letter", ["o", "é", "\\", "\N{SMILING FACE WITH SUNGLASSES}"])
def test_teams_card_is_small_enough_to_be_taken(letter: str, length: int, shown: int) -> None:
    """Teams refuses more than 28 KB. What is left out is counted, with a link."""
    call = call_for_test(1)
    call = replace(call, detail=letter * length, console="http://c/msh/incident/1/change/")

    body = made.teams([call] * 100, digest=True)

    assert 5_000 < len(json.dumps(body)) <= 28 * 1024
    card = body["attachments"][0]["content"]
    facts = sum(block["type"] == "FactSet" for block in card["body"])
    assert shown <= facts <= 10
    (rest,) = [block["text"] for block in card["body"] if "more" in block.get("text", "")]
    assert (
        rest == f"There are {100 - facts} more: [incidents in the console](http://c/msh/incident/)."
    )
    assert card["actions"][0]["url"] == "http://c/"


def test_slow_recipient_gets_what_is_left_in_the_next_round(
    hook: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was claimed was sent, however long it took, and the lease ran out."""
    recipient("ops", Channel.PAGERDUTY, url=hook.address, key=SECRET)
    suspended_world()
    suspended_world()
    monkeypatch.setattr(job, "ONE_BY_ONE", -1.0, raising=False)

    assert [notify_operators() for _ in range(3)] == [1, 1, 0]
    assert set(OperatorNotice.objects.values_list("tries", "error")) == {(1, "")}


def test_batch_that_has_waited_too_long_for_a_thread_is_not_begun(
    hook: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipient("ops", url=hook.address)
    suspended_world()
    with monkeypatch.context() as late:
        late.setattr(job, "BEGIN_WITHIN", -1.0, raising=False)
        assert notify_operators() == 0
    assert OperatorNotice.objects.get().tries == 0
    assert notify_operators() == 1


def test_what_is_taken_is_recorded_while_others_are_called(
    hook: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a worker that ends meanwhile would have it sent twice."""
    recipient("a slow one", url=f"{hook.address}/slow")
    recipient("b", url=hook.address)
    suspended_world()
    recorded = threading.Event()
    waited: list[bool] = []

    def sending(target: Target, *_: object, **__: object) -> str:
        if target.url.endswith("/slow"):
            waited.append(recorded.wait(5))
        return ""

    def recording(notices: Sequence[OperatorNotice]) -> None:
        mark_sent(notices)
        recorded.set()

    monkeypatch.setattr(job, "send", sending)
    monkeypatch.setattr(job, "mark_sent", recording)
    assert notify_operators() == 2
    assert waited == [True]


def test_mail_that_has_grown_between_tries_is_another_mail(mailbox: Mailbox) -> None:
    """Mail hosts drop a second mail with the same Message-ID."""
    recipient("ops", Channel.EMAIL, addresses="a@ops.example")
    suspended_world()
    notify_operators()
    OperatorNotice.objects.update(sent_at=None, due=timezone.now())
    notify_operators()
    suspended_world()
    OperatorNotice.objects.update(sent_at=None, due=timezone.now())
    assert notify_operators() == 2

    first, again, grown = (
        message_from_bytes(one.mail)["Message-ID"] for one in mailbox.transactions
    )
    assert first == again
    assert grown != first
