"""A token that is bound to partners meets nothing of others, at any address of the API."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from msh import roles
from msh.business_keys.models import BusinessKey, KeyRule
from msh.models import (
    ApiToken,
    BulkJob,
    ConsumerKind,
    Delivery,
    InboundConversation,
    InboundMessage,
    Incident,
    MaintenanceWindow,
    OutboundConversation,
    Scope,
    Signal,
)
from partners.models import Partner
from tests.admin.conftest import client_with_role, suspended_world
from tests.api.application import Answer, Application, order
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem, made_in_console
from tests.api.test_openapi import IN_ORDER_IN, IN_ORDER_OUT
from tests.delivery.desk import Desk, consumer, receive
from tests.endpoint.ebms2 import agree, kept_refusal
from tests.flows.conversations_in.conversation import take
from tests.flows.flying import make_sky
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

OURS, THEIRS = "ours-7e1", "theirs-9c4"
"""Words that are in what is of each side, and nowhere else."""


@dataclass(frozen=True, slots=True)
class Others:
    """Rows of partners that a token is not bound to, by the name of an operation: parameters of its
    path, and its body."""

    paths: Mapping[str, Mapping[str, Any]]
    bodies: Mapping[str, Mapping[str, Any]]


def renamed(partner: Partner, word: str) -> None:
    partner.name = f"{word}-{partner.name}"
    partner.save()


@pytest.fixture
def others(world: World) -> Others:
    """Of each kind of rows one that is of another partner."""
    world.submit(message_id=f"{OURS}-1")
    world.settle()
    theirs = make_world()
    (received,) = receive(theirs)
    waiting = suspended_world()
    sky = make_sky(ordered=True)
    clinic = Partner.objects.create(name="clinic", uri="http://clinic.example/ebms/")
    take(agree(clinic, ordered=True), 2, conversation="held")
    sky.submit(conversation_id=f"{THEIRS}-c")
    sky.poll()
    theirs.submit(message_id=f"{THEIRS}-m")
    Desk().settle()  # nobody takes it: an incident
    refusal = kept_refusal("surgery")
    now = timezone.now()
    window = MaintenanceWindow.objects.create(
        partner=theirs.there,
        starts_at=now + timedelta(hours=1),
        ends_at=now + timedelta(hours=2),
        planned_by="ann",
    )
    taker = consumer(ConsumerKind.PULL, name="archive", service_interface="Archive")
    done = Delivery.objects.create(
        consumer=taker, message=received, state="completed", attempt=1, started_at=now, ended_at=now
    )
    job = BulkJob.objects.create(
        action="resume", since=now, actor="ann", reason=THEIRS, started_at=now, total=1
    )
    rule = KeyRule.objects.create(name="number", path="/order", service_interface="Orders")
    BusinessKey.objects.create(rule=rule, value="4711", inbound=received)
    for partner in Partner.objects.exclude(pk__in=[world.there.pk, world.here.pk]):
        renamed(partner, THEIRS)
    message = {"message_id": f"{THEIRS}-m"}
    link, of_job, of_window = {"id": waiting.link.pk}, {"id": job.pk}, {"id": window.pk}
    incident = {"id": Incident.objects.filter(partner=theirs.here).get().pk}
    out, held = OutboundConversation.objects.get(), InboundConversation.objects.get()
    act, of_delivery = {"reason": "agreed"}, {"id": done.pk}
    return Others(
        paths={
            **dict.fromkeys(("get_message", "get_history"), message),
            "get_payload": {**message, "number": 1},
            "get_message_named_as_action": {**message, "action": "suspend"},
            "act_on_message": {**message, "action": "cancel"},
            "get_inbound_payload": {"id": received.pk, "number": 1},
            **dict.fromkeys(("settle_delivery", "replay_delivery"), of_delivery),
            **dict.fromkeys(("get_job", "list_job_rows", "cancel_job"), of_job),
            **dict.fromkeys(("get_queue", "get_link_history", "cancel_queue"), link),
            **dict.fromkeys(("suspend_link", "resume_link", "send_link_now"), link),
            **dict.fromkeys(("plan_maintenance", "get_link"), link),
            **dict.fromkeys(("get_maintenance", "end_maintenance"), of_window),
            **dict.fromkeys(("get_incident", "resolve_incident"), incident),
            "take_back_refusal": {"id": refusal.pk},
            **{name: {"id": out.pk} for name in IN_ORDER_OUT},
            **{name: {"id": held.pk} for name in IN_ORDER_IN},
        },
        bodies={
            "settle_delivery": {"attempt": 1, "outcome": "completed"},
            "take_deliveries": {"consumer": "archive"},
            "submit_message": order(theirs, "new", partner=f"{THEIRS}-{theirs.there.name}"),
            "plan_maintenance": {**act, "ends_at": (now + timedelta(days=1)).isoformat()},
            **{
                name: {**act, "last": 7}
                for name in (*IN_ORDER_OUT, *IN_ORDER_IN)
                if name.startswith("start")
            },
            "begin_replays": {**act, "consumer": "archive"},
        },
    )


@pytest.fixture
def bound(world: World, others: Others, token: Tokens) -> Application:
    """May do everything, with what is of the two partners of `world`; and something is."""
    holder = token(*(scope.value for scope in Scope), may=tuple(PERMISSIONS))
    made = ApiToken.objects.get(name=holder.name)
    made.partners.set([world.there, world.here])
    for partner in (world.there, world.here):
        renamed(partner, OURS)
    world.submit(message_id=f"{OURS}-2")
    return holder


PERMISSIONS = sorted(
    {name.removeprefix("msh.") for name in roles.SUPERVISOR if name.startswith("msh.")}
)


def ask_each(by_document: Any, bound: Application, others: Others) -> dict[str, Answer]:
    found = {}
    for name, operation in by_document.operations():
        path = operation.path.removeprefix("/api/v1/")
        for parameter, value in others.paths.get(name, {}).items():
            path = path.replace(f"{{{parameter}}}", str(value))
        assert "{" not in path, f"{name}: no row of another partner"
        query = {"value": "4711"} if name == "find_by_business_key" else {}
        query |= {"consumer": "archive"} if name == "count_replays" else {}
        method = operation.method.upper()
        body, kind = b"", ""
        if method == "POST":
            body = json.dumps(others.bodies.get(name, {"reason": "agreed"})).encode()
            kind = "application/json"
        if name == "submit_messages_in_bulk":
            body = json.dumps(others.bodies["submit_message"]).encode()
            kind = "application/x-ndjson"
        found[name] = bound.ask(method, path, body, kind, query=query)
    return found


def test_bound_token_meets_nothing_of_another_partner_at_any_address(
    others: Others, bound: Application
) -> None:
    by_document = import_module("tests.api.by_document")
    answers = ask_each(by_document, bound, others)
    for name, answer in answers.items():
        echoes = answer.status in (404, 422) or name == "submit_messages_in_bulk"
        assert echoes or THEIRS.encode() not in answer.content, (name, answer.content)
        if name in others.paths:
            assert answer.status in (403, 404), (name, answer.status, answer.content)
    lists = {name: one.json for name, one in answers.items() if name.startswith("list_")}
    assert {name for name, one in lists.items() if one.get("results")} == {
        *("list_messages", "list_links", "list_incidents"),
    }
    assert [one["message_id"] for one in lists["list_messages"]["results"]] == [
        f"{OURS}-1",
        f"{OURS}-2",
    ]
    for feed in ("read_feed", "read_events"):
        (one,) = answers[feed].json["results"]
        assert one["message_id"] == f"{OURS}-1"
    assert answers["mark_feed"].json["count"] == 1
    assert answers["mark_events"].json["count"] == 1
    assert answers["find_by_business_key"].json == {"results": []}
    assert_problem(answers["take_deliveries"], 403)
    assert answers["submit_message"].status == 422
    (line,) = answers["submit_messages_in_bulk"].lines
    assert line["result"] == "refused"
    for name in ("count_replays", "count_submissions_again", "count_resumptions"):
        assert_problem(answers[name], 400, "name one")
    assert not Signal.objects.filter(kind="Error", content_digest=None).exists()
    assert InboundMessage.objects.filter(state="rejected").count() == 0


def test_bound_token_does_what_is_of_its_partner(
    world: World, bound: Application, others: Others
) -> None:
    sent = bound.post("messages", order(world, "m-9", partner=world.there.name))
    assert sent.status == 201, sent.content
    assert bound.get("messages/m-9").json["partner"] == world.there.name
    (link,) = bound.get("links").json["results"]
    assert bound.get(f"links/{link['id']}/queue").json["count"] >= 1
    job = bound.post(f"links/{link['id']}/cancel-queue", {"reason": "wrong"})
    assert job.status == 201, job.content
    assert bound.get(f"jobs/{job.json['id']}").status == 200
    assert [one["id"] for one in bound.get("jobs").json["results"]] == [job.json["id"]]
    assert bound.get("submissions-again", partner=world.there.name).json["count"] == 0
    other = Partner.objects.exclude(pk__in=[world.there.pk, world.here.pk]).first()
    assert other is not None
    assert_problem(bound.get("submissions-again", partner=other.name), 404)
    assert_problem(bound.get("statistics", partner=other.name), 404)


def test_other_tokens_meet_all(others: Others, world: World, token: Tokens) -> None:
    found = token("read").get("messages", limit=1000).json["results"]
    assert f"{THEIRS}-m" in {one["message_id"] for one in found}


def test_command_binds_a_token(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("token", "shop", "--partners", f"{world.there.name},{world.here.name}")
    assert set(ApiToken.objects.get().partners.all()) == {world.there, world.here}
    capsys.readouterr()
    call_command("token")
    assert world.there.name in capsys.readouterr().out
    with pytest.raises(CommandError, match="nobody: no such partner"):
        call_command("token", "other", "--partners", "nobody")
    consumer(ConsumerKind.PULL, name="all")
    consume = ("--scopes", "consume", "--consumers", "all")
    with pytest.raises(CommandError, match="other partners too"):
        call_command("token", "other", *consume, "--partners", world.here.name)


def test_console_binds_a_token_and_keeps_its_partner(world: World) -> None:
    client = client_with_role("root", roles.ADMINISTRATOR)
    made_in_console(client, name="erp", scopes=["read"], partners=[world.there.pk])
    token = ApiToken.objects.get()
    assert list(token.partners.all()) == [world.there]
    assert world.there.name in client.get("/admin/msh/apitoken/").content.decode()
    page = client.get(f"/admin/partners/partner/{world.there.pk}/delete/").content.decode()
    assert "API token erp" in page
