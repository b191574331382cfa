"""Traces never get in the way: free when off, and harmless when they cannot be made or sent."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from msh import trace_hook
from msh.checks import check_settings
from msh.flows.sending.prepare import prepare_heading, prepare_message
from msh.flows.sending.submit_many import submit_all
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.message import Payload
from msh.tracing.context import HEADER, Context, copy_of, read, trace_of, write
from msh.tracing.spans import BULK_SPANS, Recorder
from msh.transport.job import Job
from tests.flows.world import make_world
from tests.tracing.collector import Collector

ROOT = Path(__file__).resolve().parents[2]
TRANSMITTED = AttemptResult(AttemptOutcome.TRANSMITTED, status=204)
NOBODY = "http://127.0.0.1:1/v1/traces"


class Key:
    message_id, attempt, partner_id = "m-1", 2, 7


def job(url: str = "http://127.0.0.1/ebxml/", key: object = Key()) -> Job:
    return Job(key, 7, url, "text/xml", b"", "", 1.0, time.monotonic() + 60)


@contextmanager
def recording(endpoint: str) -> Iterator[Recorder]:
    """What it has recorded has been sent on return."""
    recorder = Recorder(endpoint, 1.0, "http://msh.example/ebxml/")
    trace_hook.start(recorder)
    try:
        yield recorder
    finally:
        recorder.close()
        trace_hook.recorder = None


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """On in this process, with a collector that is not there."""
    with recording(NOBODY) as recorder:
        yield recorder


EXCHANGE = """
import sys, django
django.setup()
import msh.wsgi, msh.tasks, msh.flows.sending.sending_loop, msh.flows.delivery.delivery_loop
ours = ("opentelemetry.exporter", "opentelemetry.sdk.trace", "msh.tracing.")
print([name for name in sys.modules if name.startswith(ours)])
"""


def test_nothing_of_it_is_imported_while_it_is_off() -> None:
    """redis-py imports what it needs for metrics of its own, where OpenTelemetry is installed."""
    shown = subprocess.run(
        [sys.executable, "-c", EXCHANGE],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "msh.settings", "MSH_OTLP_ENDPOINT": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "[]\n"


def test_wrong_share_is_named_by_the_check(settings: Settings) -> None:
    """Also by that of a process, which then starts its recorder with it."""
    for share in (-0.1, 1.1):
        settings.MSH_TRACES_SHARE = share
        assert [found.id for found in check_settings(None)] == ["msh.E020"]
    shown = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env=os.environ | {"MSH_OTLP_ENDPOINT": NOBODY, "MSH_TRACES_SHARE": "10"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 1
    assert "msh.E020" in shown.stderr


def _submit() -> list[str]:
    """Files of the functions that are called for a submit of a message."""
    world = make_world()
    called: list[str] = []

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        world.submit()
    finally:
        sys.setprofile(None)
    return [name for name in called if "/msh/tracing/" in name or "opentelemetry" in name]


@pytest.mark.django_db(transaction=True)
def test_nothing_of_it_is_called_while_it_is_off() -> None:
    assert _submit() == []


@pytest.mark.django_db(transaction=True)
def test_submit_is_recorded_after_its_commit(recorder: Recorder) -> None:
    assert any(name.endswith("spans.py") for name in _submit())


def test_collector_that_is_not_there_keeps_nobody_waiting(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    began = time.monotonic()
    for number in range(5_000):  # more than are kept
        recorder.submitted(f"m-{number}", 7)
    assert time.monotonic() - began < 60  # a try to connect for each would take minutes
    assert recorder.headers_for(job())
    assert "Queue full, dropping Span" in caplog.text


def test_bulk_request_has_spans_for_its_first_messages(caplog: pytest.LogCaptureFixture) -> None:
    """More would not fit into what the SDK keeps, beside those of other requests."""
    with Collector() as collector, recording(collector.endpoint) as recorder:
        recorder.begin({"HTTP_TRACEPARENT": write(Context(1, 2))})
        recorder.submitted_many([(f"m-{number}", 7) for number in range(5_000)])
        recorder.close()
        submits = {one.trace_id for one in collector.spans if one.name == "submit"}
        (whole,) = (one for one in collector.spans if one.name == "submit to MSH")
    assert submits == {f"{trace_of(f'm-{number}'):032x}" for number in range(BULK_SPANS)}
    assert whole.attributes["messaging.batch.message_count"] == 5_000
    assert whole.attributes["ebxml.batch.submit_spans"] == BULK_SPANS
    assert "Queue full" not in caplog.text


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("OTEL_SERVICE_NAME", "shop", "shop"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop,tier=1", "shop"),
        ("OTEL_RESOURCE_ATTRIBUTES", "tier=1", "msh"),
    ],
)
def test_name_of_the_service_is_that_of_its_variables(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, name: str
) -> None:
    monkeypatch.setenv(variable, value)
    with Collector() as collector:
        recorder = Recorder(collector.endpoint, 1.0, "http://msh.example/ebxml/")
        recorder.submitted("m-1", 7)
        recorder.close()
        (span,) = collector.spans
    assert span.service["service.name"] == name
    assert span.service["ebxml.uri"] == "http://msh.example/ebxml/"


def test_defect_of_the_recorder_is_a_line_in_the_log(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no tracer")

    monkeypatch.setattr(recorder, "_make", fail)
    monkeypatch.setattr(recorder, "_is_sampled", fail)
    one = job()
    with caplog.at_level(logging.ERROR, logger="msh.trace_hook"):
        recorder.submitted("m-1", 7)
        recorder.posted(one, TRANSMITTED, 0.1)
        recorder.delivered("m-1", "default", "", 0.1)
        recorder.begin({})
        recorder.note_message(7, "m-1")
        recorder.watch(lambda status, headers, error=None: lambda body: body)("204 No Content", [])
        assert recorder.headers_for(one) == ()
    assert {record.message for record in caplog.records} == {"a span could not be recorded"}
    assert len(caplog.records) == 5


def test_header_names_the_copy_and_goes_over_http_only(recorder: Recorder) -> None:
    ((name, value),) = recorder.headers_for(job())
    assert name == HEADER
    assert read(value) == (trace_of("m-1"), copy_of("m-1", 2), True)
    assert recorder.headers_for(job("mailto:a@b.example")) == ()
    assert recorder.headers_for(job(key="a webhook")) == ()


def test_share_of_messages_is_the_same_on_both_sides() -> None:
    """It is decided by the MessageId, for all spans of a message."""
    names = [f"m-{number}" for number in range(200)]
    with Collector() as collector:
        ours, theirs = (Recorder(collector.endpoint, 0.3, uri) for uri in ("a", "b"))
        for name in names:
            ours.submitted(name, 7)
            theirs.delivered(name, "default", "", 0.0)
        for one in (ours, theirs):
            one.close()
        expected = {f"{trace_of(name):032x}" for name in names if ours._is_sampled(name)}
        submits = {one.trace_id for one in collector.spans if one.name == "submit"}
        deliveries = {one.trace_id for one in collector.spans if one.name == "deliver"}
    assert 30 < len(expected) < 90
    assert submits == expected
    assert deliveries == expected


def test_failed_attempt_is_shown_as_failed() -> None:
    refused = AttemptResult(AttemptOutcome.REFUSED, status=500, detail="500 Server Error")
    with Collector() as collector:
        recorder = Recorder(collector.endpoint, 1.0, "http://msh.example/ebxml/")
        one = job()
        traced = replace(one, headers=recorder.headers_for(one))
        recorder.posted(traced, refused, 0.25)
        recorder.close()
        (span,) = collector.spans
    assert span.failed
    assert span.span_id == f"{copy_of('m-1', 2):016x}"
    assert span.seconds == pytest.approx(0.25, abs=0.001)
    assert span.attributes["ebxml.outcome"] == "refused"
    assert span.service["ebxml.uri"] == "http://msh.example/ebxml/"


APPLICATION = Context(0xA1, 0xB2)


@pytest.mark.django_db(transaction=True)
def test_repeated_submission_is_recorded_once() -> None:
    world = make_world()
    with Collector() as collector, recording(collector.endpoint):
        for _ in range(2):
            world.submit(message_id="m-1")
    assert [one.name for one in collector.spans] == ["submit"]


@pytest.mark.django_db(transaction=True)
def test_bulk_request_is_one_span_of_the_application() -> None:
    """In however many blocks it comes, and with a message that is known."""
    world = make_world()
    world.submit(message_id="m-1")
    payload = Payload(b"<order/>", label="order.xml")

    heading = prepare_heading(world.agreement, "Orders", "New", None, {})
    one, two, three = (prepare_message(heading, [payload], f"m-{number}") for number in (1, 2, 3))
    with Collector() as collector, recording(collector.endpoint) as recorder:
        recorder.begin({"HTTP_TRACEPARENT": write(APPLICATION)})
        submit_all([[one, two], [three]])
    roots = {f"{trace_of(name):032x}" for name in ("m-2", "m-3")}
    assert {span.trace_id for span in collector.spans if span.name == "submit"} == roots
    (span,) = [span for span in collector.spans if span.name == "submit to MSH"]
    assert span.parent == f"{APPLICATION.span_id:016x}"
    counts = {"messaging.batch.message_count": 2, "ebxml.batch.submit_spans": 2}
    assert span.attributes == counts
    assert len(collector.spans) == 3


def test_nothing_is_made_for_a_message_that_is_not_of_the_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = Recorder(NOBODY, 0.0, "http://msh.example/ebxml/")
    made: list[object] = []
    monkeypatch.setattr(recorder, "_make", lambda *given: made.append(given))
    recorder.submitted_many([(f"m-{number}", 7) for number in range(100)])
    recorder.delivered("m-1", "default", "", 0.0)
    assert made == []
