"""What a router refuses at receipt, because it could not send it on."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from msh import wire
from msh.models import (
    Incident,
    OutboundMessage,
    Signal,
)
from msh.protocol.kinds import RouteMode
from msh.protocol.routing import HOP_LIMIT
from msh.transport.job import Job
from msh.wire.document import MARKUP_LIMIT
from partners.models import Agreement
from tests.flows.chain import Chain, make_chain
from tests.flows.routing.router import FAILURE, link_of, one, read, to

pytestmark = pytest.mark.django_db


def no_agreement(chain: Chain) -> None:
    Agreement.objects.filter(partner=chain.at_r).update(tpa_id="another")


def id_in_use(chain: Chain) -> None:
    message = OutboundMessage.objects.get(link__partner=chain.at_a)
    message.pk, message.link_id = None, link_of(chain.at_r)
    message.sequence_number = message.epoch = None
    message.state = "queued"
    message.save()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [(no_agreement, "no agreement 'tpa-1' between"), (id_in_use, "was sent to partner")],
)
def test_message_without_a_route_is_refused_and_not_stored(
    spoil: Callable[[Chain], Any], why: str
) -> None:
    chain = make_chain()
    chain.submit()
    job = one(chain.poll())
    spoil(chain)

    answer = chain.transmit(job)

    assert why in answer.reason
    assert chain.stored_at(chain.from_a) == []
    assert chain.pending_for(chain.from_a) == [FAILURE]
    incident = Incident.objects.get(partner=chain.from_a)
    assert (incident.kind, incident.resolved_at) == ("route_failed", None)
    assert why in incident.detail


def hops(chain: Chain, count: int) -> Job:
    """The message as if it had come through `count` MSHs."""
    chain.submit()
    job = one(chain.poll())
    begin = job.body.index(b"<RoutingHeader>")
    end = job.body.index(b"</RoutingHeader>") + len(b"</RoutingHeader>")
    element = job.body[begin:end]
    other = element.replace(chain.at_a.our_uri.encode(), b"http://other.example/")
    return replace(job, body=job.body[:begin] + other * (count - 1) + job.body[begin:])


def test_a_message_of_too_many_hops_is_refused() -> None:
    chain = make_chain()
    job = hops(chain, HOP_LIMIT)

    answer = chain.transmit(job)

    assert f"a router sends at most {HOP_LIMIT}" in answer.reason
    assert chain.stored_at(chain.from_a) == []
    assert chain.pending_for(chain.from_a) == [FAILURE]


def test_a_message_of_one_hop_less_is_sent_on() -> None:
    chain = make_chain()
    chain.transmit(hops(chain, HOP_LIMIT - 1))
    chain.settle()

    assert len(chain.stored_at(chain.from_r)) == 1


def with_extra(chain: Chain, extra: Callable[[bytes], str]) -> Job:
    """The message with something more at the end of its header document."""
    chain.submit()
    job = one(chain.poll())
    markup = extra(read(job).header_document).encode()
    end = job.body.index(b"</ebXMLHeader>")
    return replace(job, body=job.body[:end] + markup + job.body[end:])


def nearly_too_large(header_document: bytes) -> str:
    return f"<!--{' ' * (wire.HEADER_LIMIT - len(header_document) - 200)}-->"


def nearly_too_many_marks(header_document: bytes) -> str:
    return "<a/>" * (MARKUP_LIMIT - header_document.count(b"<") - header_document.count(b"="))


@pytest.mark.parametrize("mode", RouteMode)
@pytest.mark.parametrize("extra", [nearly_too_large, nearly_too_many_marks])
def test_a_message_that_the_next_msh_could_not_read_is_refused_at_receipt(
    mode: RouteMode, extra: Callable[[bytes], str]
) -> None:
    """Else the first of them would suspend the lane onward, of all senders."""
    chain = make_chain(mode)

    chain.transmit(with_extra(chain, extra))
    chain.settle()

    assert chain.stored_at(chain.from_a) == []
    incident = Incident.objects.get(partner=chain.from_a)
    assert (incident.kind, incident.resolved_at) == ("route_failed", None)
    assert "the header document" in incident.detail
    assert Signal.objects.get(link__partner=chain.from_a).code == "DeliveryFailure"
    assert not OutboundMessage.objects.filter(link__partner=chain.at_r).exists()


def test_message_that_cannot_be_forwarded_is_refused_at_receipt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = make_chain()
    chain.submit()
    job = one(chain.poll())

    def raising(*given: object, **named: object) -> bytes:
        raise RuntimeError("what nobody\nhas thought of")

    monkeypatch.setattr(wire, "compose_routed_head", raising)
    answer = chain.hand_over(job)

    assert answer.reason == "cannot be forwarded: RuntimeError: what nobody has thought of"
    assert chain.stored_at(chain.from_a) == []
    assert chain.pending_for(chain.from_a) == [FAILURE]


@pytest.mark.parametrize("markup", ["<\U00010000/>", "<a\u0220/>", "<\u1e9e/>"])
def test_message_with_unknown_elements_is_forwarded(markup: str) -> None:
    chain = make_chain()
    job = with_extra(chain, lambda _: markup)

    chain.transmit(job)
    onward = to(chain.settle(), chain.at_r)

    assert len(chain.stored_at(chain.from_r)) == 1
    assert markup.encode() in read(one(onward)).header_document


def test_a_message_that_we_sent_on_before_is_a_loop() -> None:

    chain = make_chain()
    job = hops(chain, 2)
    router = chain.at_r.our_uri.encode()
    first = job.body.index(b"http://other.example/")
    body = job.body[:first] + router + job.body[first + len(b"http://other.example/") :]

    answer = chain.transmit(replace(job, body=body))

    assert "a loop" in answer.reason
    assert chain.stored_at(chain.from_a) == []
    assert chain.pending_for(chain.from_a) == [FAILURE]
