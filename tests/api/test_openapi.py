"""The OpenAPI document says what the API does: schemathesis asks, by the document alone."""

import re
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import Client
from django.utils import timezone

from msh.allowance import Allowance
from msh.api.framework import access
from msh.flows.operations.configure import IMPORT_PERMISSIONS
from msh.models import (
    BulkJob,
    ConsumerKind,
    Delivery,
    InboundConversation,
    InboundMessage,
    Incident,
    MaintenanceWindow,
    OutboundConversation,
    OutboundMessage,
)
from partners.models import Partner
from tests.admin.conftest import suspended_world, waiting_world
from tests.api.application import Application, order
from tests.api.conftest import Tokens
from tests.api.test_access import NEEDS, OF_ANY_TOKEN
from tests.delivery.desk import Desk, consumer, receive
from tests.endpoint.ebms2 import agree, kept_refusal
from tests.flows.conversations_in.conversation import take
from tests.flows.flying import make_sky, sky_of_five
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def by_document() -> Any:
    """It takes seconds to import, which other test processes do without."""
    return import_module("tests.api.by_document")


def test_every_address_is_in_the_document(by_document: Any) -> None:
    paths = by_document.document()["paths"]
    documented = {
        (method.upper(), path.removeprefix("/api/v1/"))
        for path, methods in paths.items()
        for method in methods
    }
    any_row = r"(?<=/)(1|m-1)(?=/|$)|(?<=/m-1/)suspend"
    asked = {(m, re.sub(any_row, "{}", path)) for m, path, _ in NEEDS} | {*OF_ANY_TOKEN}
    assert {(m, re.sub(r"{\w+}", "{}", path)) for m, path in documented} == asked


def test_document_page_loads_nothing_external(client: Client) -> None:
    page = client.get("/api/docs").content.decode()
    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(sources) >= 3
    for source in sources:
        assert source.startswith(("/static/", "/api/docs?script=")), source
    assert "//" not in re.sub(r"/static/\S+|//# .*|// .*", "", page), "no address of another host"
    assert client.get("/api/schema").status_code == 200


@pytest.fixture(autouse=True)
def any_number_of_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """schemathesis shows an unknown token to each address, many a second on a fast machine."""
    monkeypatch.setattr(access, "guesses", Allowance(burst=1_000_000, refill=1))


@pytest.fixture
def api(world: World, token: Tokens) -> Iterator[Application]:
    """With a row behind each address: PARAMETERS of each operation name one that it can act on."""
    (received,) = receive(make_world())
    Desk().settle()  # nobody takes it
    incident = Incident.objects.get()
    consumer(ConsumerKind.PULL, name="orders")
    permissions = ("suspend", "resume", "send_now")
    holder = token(
        *("send", "read", "read_payload", "consume", "operate"),
        may=(
            *("view_outboundlink", "view_outboundmessage", "view_incident", "resolve_incident"),
            *("view_statistics", "view_inboundlink", "cancel_outboundlink"),
            "correct_outboundmessage",
            *(name.partition(".")[2] for name in IMPORT_PERMISSIONS),
            *("view_bulkjob", "bulk_bulkjob", "view_delivery", "replay_delivery"),
            *("view_maintenancewindow", "view_signal", "take_back_refusal_signal"),
            *("expect_inboundlink", "reset_sequence_outboundlink"),
            *(f"{verb}_outboundlink" for verb in permissions),
        ),
    )
    receive(make_world())
    taking = {"consumer": "orders", "limit": 1}
    (taken,) = holder.post("deliveries/take", taking).json["results"]
    suspended, waiting = suspended_world(), waiting_world()
    holder.bulk([order(world, name) for name in ("m-1", "m-2/cancel", "bulk")])
    make_sky().submit(message_id="f-1")
    five = sky_of_five()  # one has failed, one is held
    OutboundMessage.objects.filter(state="failed").update(completed_at=timezone.now())
    assert five.link.flights.filter(state="held").exists()
    PARAMETERS.update(
        {
            "get_message": {"message_id": "m-1"},
            "get_message_named_as_action": {"message_id": "m-2", "action": "cancel"},
            "get_history": {"message_id": "m-1"},
            "get_payload": {"message_id": "m-1", "number": 1},
            "get_inbound_payload": {"id": received.pk, "number": 1},
            "settle_delivery": {"id": taken["delivery"]},
            "act_on_message": {"message_id": "f-1", "action": "send-now"},
            "suspend_link": {"id": world.link.pk},
            "resume_link": {"id": suspended.link.pk},
            "send_link_now": {"id": waiting.link.pk},
            "resolve_incident": {"id": incident.pk},
            "get_incident": {"id": incident.pk},
            "get_link": {"id": world.link.pk},
            "get_queue": {"id": suspended.link.pk},
            "get_link_history": {"id": suspended.link.pk},
            "cancel_queue": {"id": suspended.link.pk},
            "plan_maintenance": {"id": world.link.pk},
            "take_back_refusal": {"id": kept_refusal().pk},
            **going_on(received),
            **conversations(),
        }
    )
    signals = (request_started, request_finished)
    for signal in signals:  # as Django's own client does: the connection is the test's
        signal.disconnect(close_old_connections)
    yield holder
    for signal in signals:
        signal.connect(close_old_connections)


def going_on(received: InboundMessage) -> dict[str, dict[str, Any]]:
    """A job, a window, and a delivery that can be replayed."""
    now = timezone.now()
    job = BulkJob.objects.create(
        action="resume", since=now, actor="ann", reason="back", started_at=now, total=1
    )
    window = MaintenanceWindow.objects.create(
        partner=Partner.objects.create(name="mill", uri="http://mill.example/ebxml/"),
        starts_at=now + timedelta(hours=1), ends_at=now + timedelta(hours=2), planned_by="ann",
    )  # fmt: skip
    taker = consumer(ConsumerKind.PULL, name="archive", service_interface="Archive")
    done = Delivery.objects.create(
        consumer=taker, message=received, state="completed", attempt=1, started_at=now, ended_at=now
    )
    of_job = {name: {"id": job.pk} for name in ("get_job", "list_job_rows", "cancel_job")}
    return {
        **of_job,
        **{name: {"id": window.pk} for name in ("get_maintenance", "end_maintenance")},
        "replay_delivery": {"id": done.pk},
    }


IN_ORDER_OUT = ("restart_outbound_conversation", "start_order_of_outbound_conversation")
IN_ORDER_IN = tuple(
    f"{verb}_of_inbound_conversation"
    for verb in ("extend_wait", "skip_missing", "drop_held", "start_order")
)


def conversations() -> dict[str, dict[str, Any]]:
    """One for each action."""
    sky = make_sky(ordered=True)
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    agreement = agree(partner, ordered=True)
    for name in IN_ORDER_OUT:
        message = sky.submit(conversation_id=name)
        sky.poll()
        sky.answer(message)
    for name in IN_ORDER_IN:
        take(agreement, 2, conversation=name)
    rows = (*OutboundConversation.objects.all(), *InboundConversation.objects.all())
    return {row.conversation_id: {"id": row.pk} for row in rows}


PARAMETERS: dict[str, dict[str, Any]] = {}
"""Of the path, by operationId, as long as a test has its rows."""


def test_each_success_of_the_document_is_met(
    world: World, api: Application, by_document: Any
) -> None:
    lines = [order(world, "m-4"), order(world, "m-5", action="")]
    reason = {"body": {"reason": "agreed"}, "media_type": "application/json"}
    more: dict[str, dict[str, Any]] = {
        "list_messages": {"query": {"state": "queued", "limit": 1}},
        "submit_message": {"body": order(world, "m-3"), "media_type": "application/json"},
        "submit_messages_in_bulk": {"body": lines, "media_type": "application/x-ndjson"},
        "find_by_business_key": {"query": {"value": "7"}},
        "read_feed": {"query": {"payloads": "true"}},
        "take_deliveries": {"body": {"consumer": "orders"}, "media_type": "application/json"},
        "settle_delivery": {
            "body": {"attempt": 1, "outcome": "completed"},
            "media_type": "application/json",
        },
        "act_on_message": reason,
        "suspend_link": reason,
        "resume_link": reason,
        "send_link_now": reason,
        "resolve_incident": reason,
        "take_back_refusal": reason,
        **dict.fromkeys(
            ("cancel_queue", "end_maintenance", "replay_delivery", "cancel_job"), reason
        ),
        "plan_maintenance": {
            **reason,
            "body": {
                "reason": "agreed",
                "ends_at": (timezone.now() + timedelta(days=1)).isoformat(),
            },
        },
        "change_configuration": {
            **reason,
            "body": {"reason": "agreed", "document": {"partners": [{"name": world.there.name}]}},
        },
        "count_replays": {"query": {"consumer": "archive"}},
        "begin_submissions_again": reason,
        "begin_resumptions": reason,
        "begin_replays": {**reason, "body": {"reason": "agreed", "consumer": "archive"}},
        **dict.fromkeys((*IN_ORDER_OUT, *IN_ORDER_IN), reason),
    }
    last = {**reason, "body": {"reason": "agreed", "last": 7}}
    more |= {name: last for name in more if name.startswith("start_order")}
    for name, operation in by_document.operations():
        documented = {int(s) for s in operation.definition.raw["responses"] if s[0] == "2"}
        if name in ("act_on_message", "cancel_queue") or name in (*IN_ORDER_OUT, *IN_ORDER_IN):
            documented -= {202}  # needs MSH_SECOND_PERSON: tests/four_eyes/test_entries.py
        given = {"path_parameters": PARAMETERS.get(name, {}), **more.get(name, {})}
        met = {by_document.ask(operation.Case(**given), api) for _ in documented}
        assert met == documented, name


def test_answers_are_those_of_the_document(by_document: Any, api: Application) -> None:
    """Nor a 500."""
    by_document.ask_each(api)
