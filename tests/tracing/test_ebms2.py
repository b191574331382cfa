"""Signals of ebMS 2.0 in the trace of the message that they are about, whatever they lack."""

from collections.abc import Iterator

import pytest

from msh import trace_hook
from msh.flows.receiving.ebms2 import receive, receive_fast_path
from msh.flows.receiving.incoming import Incoming
from msh.tracing.context import trace_of
from msh.tracing.spans import Recorder
from partners.models import Partner
from tests.endpoint.ebms2 import agree
from tests.peer.ebms2 import Outgoing, acknowledgment, acknowledgment_block, message_error
from tests.tracing.collector import Collector
from tests.tracing.test_recorder import recording

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def partner() -> Partner:
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    agree(partner)
    return partner


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Of the spans of this process. They have arrived once the recorder is closed."""
    with Collector() as collector, recording(collector.endpoint):
        yield collector


def spans_of(out: Outgoing, partner: Partner, collector: Collector) -> set[tuple[str, str]]:
    """Names and traces, when both paths have been asked to take it."""
    recorder = trace_hook.recorder
    assert isinstance(recorder, Recorder)
    for path in (receive_fast_path, receive):
        recorder.begin({})
        answer = path(partner, Incoming(out.content_type, out.body))
        assert answer is None or answer.status == 204
        recorder.watch(lambda status, headers, error=None: lambda body: body)("204 Gone", [])
    recorder.close()
    return {(one.name, one.trace_id) for one in collector.spans}


@pytest.mark.requirement("EB-062")
@pytest.mark.parametrize(
    "signal",
    [
        acknowledgment("m-1"),
        acknowledgment("m-1").but(extra=""),
        acknowledgment("m-1").but(extra=acknowledgment_block("")),
        acknowledgment("").but(extra=acknowledgment_block("m-1")),
        message_error("m-1"),
    ],
)
def test_signal_is_in_the_trace_of_its_message(
    signal: Outgoing, partner: Partner, collector: Collector
) -> None:
    expected = {(f"receive {signal.action}", f"{trace_of('m-1'):032x}")}
    assert spans_of(signal, partner, collector) == expected


def test_defect_of_the_recorder_is_harmless(
    partner: Partner, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise IndexError

    monkeypatch.setattr(trace_hook.recorder, "note_message", fail)
    assert spans_of(acknowledgment("m-1"), partner, collector) == set()
