"""One trace from submit to Acknowledgement, as a collector receives it."""

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from pytest_django import DjangoDbBlocker

from msh.models import OutboundMessage
from msh.tracing.context import Context, copy_of, read, root_of, trace_of, write
from tests.exchange.machine import Machine
from tests.exchange.pair import Pair
from tests.exchange.running import making_pairs, running
from tests.peer import normal
from tests.services import spare_redis
from tests.tracing.collector import Collector, Span
from tests.waiting import wait_until

APPLICATION = Context(0xA1, 0xB2)
THEIRS = Context(0xC3, 0xD4)
WITHIN = 60.0  # seconds


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running_collector:
        yield running_collector


@pytest.fixture(scope="module")
def traced(
    collector: Collector,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Machine]:
    """An MSH that is traced."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    database = f"{settings.DATABASES['default']['NAME']}_traces_{worker}"
    machine = Machine(
        tmp_path_factory.mktemp("traced"),
        database,
        "http://traced.example/ebxml/",
        spare_redis(os.environ["REDIS_URL"], 3),
        {"MSH_OTLP_ENDPOINT": collector.endpoint},
    )
    with running(machine, django_db_blocker) as started:
        yield started


@pytest.fixture
def pair(traced: Machine, django_db_blocker: DjangoDbBlocker) -> Iterator[Pair]:
    with django_db_blocker.unblock(), traced.database(), making_pairs(traced) as make:
        yield make(acknowledges=True, timeout=30)


def _wait_for(collector: Collector, message_id: str, *names: str) -> dict[str, Span]:
    def found() -> dict[str, Span]:
        spans = collector.of(trace_of(message_id))
        return spans if spans.keys() >= set(names) else {}

    wait_until(
        found,
        seconds=WITHIN,
        what=lambda: f"{names}, not {[one.name for one in collector.spans]}",
    )
    return found()


def _submit(pair: Pair, tmp_path: Path) -> str:
    """Over the REST API, by an application that has a trace; the MessageId."""
    file = tmp_path / "token"
    with file.open("w") as output:
        call_command("token", "traced", "--scopes", "send,read", stdout=output)
    document = {
        "tpa_id": pair.agreement.tpa_id,
        "service_interface": "Orders",
        "action": "New",
        "payloads": [{"content": "<Order/>"}],
    }
    request = urllib.request.Request(
        pair.msh.url.replace("/ebxml/", "/api/v1/messages"),
        json.dumps(document).encode(),
        {
            "Authorization": f"Bearer {file.read_text().strip()}",
            "Content-Type": "application/json",
            "traceparent": write(APPLICATION),
        },
    )
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["message_id"])


def test_from_submit_to_acknowledgement(pair: Pair, collector: Collector, tmp_path: Path) -> None:
    message_id = _submit(pair, tmp_path)
    pair.wait_for_state(OutboundMessage.objects.get(message_id=message_id))
    spans = _wait_for(collector, message_id, "submit", "send", "receive Acknowledgement")
    submit, send, ack = (spans[name] for name in ("submit", "send", "receive Acknowledgement"))
    root = f"{root_of(message_id):016x}"
    assert (submit.span_id, submit.parent) == (root, "")
    assert send.parent == ack.parent == root
    assert {one.attributes["messaging.message.id"] for one in spans.values()} == {message_id}
    assert {one.attributes["ebxml.partner_id"] for one in spans.values()} == {pair.partner.pk}
    assert send.attributes["ebxml.attempt"] == 1
    assert send.attributes["http.response.status_code"] == 204
    assert send.service["service.name"] == "msh"
    # The application's trace and the message's lead to each other.
    assert submit.links == ((f"{APPLICATION.trace_id:032x}", f"{APPLICATION.span_id:016x}"),)
    in_theirs = collector.of(APPLICATION.trace_id)["submit to MSH"]
    assert in_theirs.parent == f"{APPLICATION.span_id:016x}"
    assert in_theirs.links == ((submit.trace_id, submit.span_id),)
    # The partner can go on with the trace: the span of the copy that it has received.
    (copy,) = pair.peer.received.copies_of(message_id)
    assert read(copy.headers["traceparent"] or "") == Context(
        trace_of(message_id), copy_of(message_id, 1)
    )
    assert b"traceparent" not in copy.body


def test_message_of_a_partner(pair: Pair, collector: Collector) -> None:
    """The partner is an MSH of ours, which says in which copy its message came."""
    draft = normal(sequence_number=1)
    message_id = draft.message_id
    sent = Context(trace_of(message_id), copy_of(message_id, 1))
    assert pair.peer.send(draft, headers={"traceparent": write(sent)}).status == 204
    pair.peer.received.wait_for_acknowledgement(of=draft, timeout=WITHIN)
    spans = _wait_for(collector, message_id, "receive", "deliver", "send Acknowledgement")
    assert spans["receive"].parent == f"{sent.span_id:016x}"
    assert spans["receive"].links == ()
    assert spans["receive"].attributes["http.response.status_code"] == 204
    assert spans["deliver"].parent == f"{root_of(message_id):016x}"
    assert spans["send Acknowledgement"].parent == f"{root_of(message_id):016x}"


def test_message_of_a_partner_with_a_trace_of_its_own(pair: Pair, collector: Collector) -> None:
    draft = normal(sequence_number=1)
    assert pair.peer.send(draft, headers={"traceparent": write(THEIRS)}).status == 204
    spans = _wait_for(collector, draft.message_id, "receive")
    assert spans["receive"].links == ((f"{THEIRS.trace_id:032x}", f"{THEIRS.span_id:016x}"),)
    assert spans["receive"].parent == f"{root_of(draft.message_id):016x}"
