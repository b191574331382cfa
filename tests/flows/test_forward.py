"""A router between two MSHs: what it stores, acknowledges, sends on and refuses (000 §4.1, D20)."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction

from msh import wire
from msh.flows.operations import change_link, resynchronise
from msh.flows.receiving import forward
from msh.flows.receiving.link_status import status_for
from msh.models import (
    History,
    InboundMessage,
    Incident,
    OutboundMessage,
    PartyEvent,
    Signal,
)
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.effects import QueueError
from msh.protocol.events import AckReceived
from msh.protocol.kinds import RouteMode
from msh.protocol.message import Field, ReceivedMessage
from msh.protocol.routing import HOP_LIMIT
from msh.protocol.vocabulary import DeliverySemantics, ErrorCode
from msh.store.history import Actor
from msh.store.operations.operator_actions import Switch
from msh.store.receiving.forwarding import Due, find_next_hop
from msh.store.receiving.messages import queue_error
from msh.store.sending.links import OutboundLinks
from msh.transport.job import Job
from msh.wire.document import MARKUP_LIMIT
from partners.models import Agreement, Partner, Route

from . import byhand
from .chain import Chain, make_chain
from .world import LOST

pytestmark = pytest.mark.django_db

ACK, TRANSIENT = ("Acknowledgement", ""), ("Error", "TransientError")
FAILURE = ("Error", "DeliveryFailure")
OPERATOR = Actor("ann", "the test says so")
REFUSED = AttemptResult(AttemptOutcome.REFUSED, status=413, detail="413 too large")


def read(job: Job) -> ReceivedMessage:
    return wire.parse(job.content_type, job.body)


def to(jobs: list[Job], partner: Partner) -> list[Job]:
    return [job for job in jobs if job.partner_id == partner.pk]


def one(jobs: list[Job]) -> Job:
    (job,) = jobs
    return job


def sent_to_router(chain: Chain) -> Job:
    """A submits a message, and it comes to R."""
    chain.submit()
    job = one(chain.poll())
    chain.transmit(job)
    return job


@pytest.mark.requirement("000-073")
@pytest.mark.parametrize("mode", RouteMode)
def test_messages_reach_b_in_order_under_numbers_of_each_hop(mode: RouteMode) -> None:
    chain = make_chain(mode)
    change_link.start_link(chain.at_r, "out", 40, OPERATOR)
    change_link.start_link(chain.from_r, "in", 40, OPERATOR)
    ids = [chain.submit(f"<order n='{n}'/>").message_id for n in range(3)]

    jobs = chain.settle()

    assert chain.stored_at(chain.from_a) == chain.stored_at(chain.from_r) == ids
    numbers = [read(job).header.route.sequence_number for job in to(jobs, chain.at_a)]
    onward = [read(job).header.route.sequence_number for job in to(jobs, chain.at_r)]
    assert (numbers, onward) == ([1, 2, 3], [41, 42, 43])
    states = OutboundMessage.objects.values_list("state", flat=True)
    assert set(states) == {"acknowledged"}
    forwarded = InboundMessage.objects.filter(link__partner=chain.from_a)
    assert set(forwarded.values_list("state", flat=True)) == {"forwarded"}


@pytest.mark.requirement("000-075", "000-076", "000-090")
def test_the_router_adds_a_routing_header_and_leaves_every_other_byte() -> None:
    chain = make_chain()
    chain.submit("<order>\r\n\x00\xff</order>".encode("latin-1").decode("latin-1"))

    jobs = chain.settle()

    first, second = (read(one(to(jobs, partner))) for partner in (chain.at_a, chain.at_r))
    end = first.header_document.index(b"</RoutingHeader>") + len(b"</RoutingHeader>")
    assert second.header_document.startswith(first.header_document[:end])
    assert second.header_document.endswith(first.header_document[end:])
    hops = [(hop.sender_uri, hop.receiver_uri, hop.error_uri) for hop in second.header.routing]
    a, r, b = chain.at_a.our_uri, chain.at_r.our_uri, chain.at_r.uri
    assert hops == [(a, r, a), (r, b, r)]
    assert second.header.routing[0] == first.header.route
    assert second.payloads == first.payloads
    assert second.content_digest == first.content_digest


def test_every_copy_onward_is_the_same_bytes() -> None:
    chain = make_chain()
    sent_to_router(chain)
    chain.transmit(one(chain.poll()))  # the Ack to A
    first = one(chain.poll())
    chain.end(first, AttemptResult(AttemptOutcome.FAILED, detail="refused"))
    change_link.send_now(chain.at_r, OPERATOR)

    assert one(chain.poll()).body == first.body


@pytest.mark.requirement("000-074")
def test_hop_sends_on_only_when_its_ack_was_transmitted() -> None:
    chain = make_chain()
    sent_to_router(chain)

    ack = one(chain.poll())
    assert ack.partner_id == chain.from_a.pk
    assert chain.poll() == []  # the Ack is under way: nothing goes to B

    chain.transmit(ack)
    assert one(chain.poll()).partner_id == chain.at_r.pk


def test_hop_sends_on_what_its_sender_never_lets_itself_be_acknowledged() -> None:
    chain = make_chain()
    sent_to_router(chain)

    chain.end(one(chain.poll()), REFUSED)

    assert one(chain.poll()).partner_id == chain.at_r.pk


@pytest.mark.requirement("000-077")
@pytest.mark.parametrize("mode", RouteMode)
def test_suspended_next_hop_stores_nothing_and_sends_transient_error(
    mode: RouteMode,
) -> None:
    chain = make_chain(mode)
    change_link.suspend(chain.at_r, OPERATOR)

    job = sent_to_router(chain)

    assert chain.stored_at(chain.from_a) == []
    assert chain.pending_for(chain.from_a) == [TRANSIENT]
    chain.settle()
    assert chain.link(chain.at_a).state == "transient"
    change_link.resume(chain.at_r, OPERATOR)
    chain.hand_over(job)
    chain.settle()
    assert chain.stored_at(chain.from_r) == chain.stored_at(chain.from_a) != []


@pytest.mark.requirement("000-078")
def test_end_to_end_acknowledges_when_b_has_stored() -> None:
    chain = make_chain(RouteMode.END_TO_END)
    sent_to_router(chain)
    assert chain.pending_for(chain.from_a) == []  # the first copy gets no answer

    chain.transmit(one(chain.poll()))
    assert len(chain.stored_at(chain.from_r)) == 1
    assert chain.pending_for(chain.from_a) == []
    chain.transmit(one(chain.poll()))  # the Ack of B to R

    assert chain.pending_for(chain.from_a) == [ACK]
    chain.settle()
    assert set(OutboundMessage.objects.values_list("state", flat=True)) == {"acknowledged"}


@pytest.mark.requirement("000-077", "000-078")
def test_end_to_end_copy_gets_transient_error_until_b_acknowledges() -> None:
    chain = make_chain(RouteMode.END_TO_END)
    job = sent_to_router(chain)

    chain.hand_over(job)
    assert chain.pending_for(chain.from_a) == [TRANSIENT]
    chain.settle()
    chain.hand_over(job)

    assert chain.pending_for(chain.from_a) == [ACK]
    assert chain.stored_at(chain.from_r) == chain.stored_at(chain.from_a)


def test_end_to_end_waits_as_long_as_b_asked_the_router_to() -> None:
    chain = make_chain(RouteMode.END_TO_END)
    sent_to_router(chain)
    job = one(chain.poll())
    chain.end(job)
    ask_to_wait(chain, read(job), 120)
    chain.settle()

    again = chain.submit()
    chain_ack(chain)
    chain.transmit(one(to(chain.poll(), chain.at_a)))

    assert again.message_id not in chain.stored_at(chain.from_a)
    (error,) = Signal.objects.filter(link__partner=chain.from_a, code="TransientError")
    assert 60 < (error.min_retry_secs or 0) <= 120


@pytest.mark.requirement("000-078")
@pytest.mark.parametrize("forwarded", [False, True])
def test_end_to_end_link_status_withholds_until_b_acknowledges(
    forwarded: bool,
) -> None:
    """B is dead and A's operator resynchronises: what R has stored proves nothing of B."""
    chain = make_chain(RouteMode.END_TO_END)
    copy = sent_to_router(chain)
    message = OutboundMessage.objects.get(link__partner=chain.at_a)
    if forwarded:
        chain.end(one(chain.poll()), LOST)
    change_link.suspend(chain.at_a, OPERATOR)
    theirs = status_for(chain.from_a, [message.message_id])

    compared = resynchronise.apply(chain.at_a, theirs, OPERATOR)

    assert theirs.has(message.message_id) is True
    assert "is forwarding it" in compared.plan.text
    message.refresh_from_db()
    assert (message.state, chain.link(chain.at_a).state) == ("in_flight", "waiting")
    assert not PartyEvent.objects.exists()

    if forwarded:
        change_link.send_now(chain.at_r, OPERATOR)
    chain.settle()
    chain.hand_over(copy)
    chain.settle()
    message.refresh_from_db()
    assert message.state == "acknowledged"
    assert status_for(chain.from_a, [message.message_id]).acknowledges(message.message_id)


@pytest.mark.parametrize("outcome", ["refused", "cancelled"])
def test_end_to_end_refused_onward_is_delivery_failure_for_a(outcome: str) -> None:
    chain = make_chain(RouteMode.END_TO_END)
    copy = sent_to_router(chain)

    chain.end(one(chain.poll()), REFUSED)

    assert chain.pending_for(chain.from_a) == [FAILURE]
    chain.settle()
    assert chain.link(chain.at_a).suspended_for == "error_received"
    if outcome == "cancelled":
        OutboundMessage.objects.filter(link__partner=chain.at_r).update(state="cancelled")
    chain.hand_over(copy)
    assert chain.pending_for(chain.from_a) == [FAILURE]


def test_end_to_end_a_late_ack_of_b_reaches_a_after_all() -> None:
    chain = make_chain(RouteMode.END_TO_END)
    sent_to_router(chain)
    job = one(chain.poll())
    chain.hand_over(job)
    chain.end(job, REFUSED)  # it was stored, but the answer said otherwise

    chain.settle()

    message = OutboundMessage.objects.get(link__partner=chain.at_a)
    assert (message.state, chain.link(chain.at_a).late_ack) == ("acknowledged", True)


def test_router_notifies_nobody_of_forwarded_messages() -> None:
    chain = make_chain()
    chain.submit()
    chain.settle()

    notified = PartyEvent.objects.values_list("message__link__partner", flat=True)
    assert list(notified) == [chain.at_a.pk]


def test_best_effort_goes_through_without_an_ack() -> None:
    chain = make_chain(RouteMode.END_TO_END)
    chain.submit(semantics=DeliverySemantics.BEST_EFFORT)

    chain.settle()

    assert len(chain.stored_at(chain.from_r)) == 1
    assert set(OutboundMessage.objects.values_list("state", flat=True)) == {"sent"}
    assert not Signal.objects.exists()


def test_a_duplicate_is_sent_on_once() -> None:
    chain = make_chain()
    job = sent_to_router(chain)
    chain.hand_over(job)
    chain.settle()
    chain.hand_over(job)
    chain.settle()

    assert len(chain.stored_at(chain.from_r)) == 1
    assert OutboundMessage.objects.filter(link__partner=chain.at_r).count() == 1


# --- what cannot be sent on -----------------------------------------------------------------------


def no_agreement(chain: Chain) -> None:
    Agreement.objects.filter(partner=chain.at_r).update(tpa_id="another")


def id_in_use(chain: Chain) -> None:
    message = OutboundMessage.objects.get(link__partner=chain.at_a)
    message.pk, message.link_id = None, link_of(chain.at_r)
    message.sequence_number = message.epoch = None
    message.state = "queued"
    message.save()


def link_of(partner: Partner) -> int:
    change_link.open_links(partner)
    return partner.outbound_link.pk


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


def test_a_route_that_is_gone_holds_what_is_stored_until_it_is_back() -> None:
    chain = make_chain()
    sent_to_router(chain)
    Route.objects.all().delete()

    chain.settle()
    (held,) = InboundMessage.objects.filter(link__partner=chain.from_a)
    assert (held.state, held.forward_failures) == ("routed", 1)
    assert Incident.objects.filter(kind="route_failed", partner=chain.from_a).exists()

    chain.route.pk = None
    chain.route.save(force_insert=True)
    InboundMessage.objects.filter(pk=held.pk).update(forward_due=None)
    chain.settle()
    assert len(chain.stored_at(chain.from_r)) == 1
    assert History.objects.filter(event="MessageSentOn").count() == 1


@pytest.mark.requirement("000-006")
def test_without_a_route_a_router_keeps_what_is_for_its_party() -> None:
    chain = make_chain()
    chain.route.delete()
    chain.submit()
    chain.settle()

    assert InboundMessage.objects.get(link__partner=chain.from_a).state == "accepted"
    assert chain.stored_at(chain.from_r) == []


def ask_to_wait(chain: Chain, message: ReceivedMessage, seconds: int) -> None:
    """B answers R with a TransientError."""

    error = QueueError(ErrorCode.TRANSIENT_ERROR, Field.MESSAGE, "not now", seconds)
    queue_error(chain.from_r.pk, error, message.header, message.header.route.sequence_number)


def chain_ack(chain: Chain) -> None:
    """A's first message is acknowledged, so that its lane is free."""

    message = OutboundMessage.objects.get(link__partner=chain.at_a, state="in_flight")
    with transaction.atomic():
        lanes = OutboundLinks.lock([chain.at_a.pk])
        lanes.step(chain.at_a.pk, AckReceived(message.message_id))
        lanes.write()


def test_partner_closed_to_applications_gets_forwarded_messages() -> None:
    chain = make_chain()
    change_link.switch(chain.at_r, Switch.ACCEPTS, on=False, actor=OPERATOR)
    message = chain.submit()

    chain.settle()

    assert chain.stored_at(chain.from_r) == [message.message_id]


def test_a_message_that_cannot_be_sent_on_stops_no_other_pair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken, other = make_chain(), make_chain()
    for chain in (broken, other):
        chain.submit()
    for job in byhand.poll():
        (broken if job.partner_id == broken.at_a.pk else other).transmit(job)
    for job in byhand.poll():  # the Acks to A
        (broken if job.partner_id == broken.from_a.pk else other).transmit(job)
    way_onward = find_next_hop

    def raising(agreement: Agreement) -> Any:
        if agreement.partner_id == broken.from_a.pk:
            raise RuntimeError("what nobody has thought of")
        return way_onward(agreement)

    monkeypatch.setattr(forward, "find_next_hop", raising)
    forward.run()

    assert OutboundMessage.objects.filter(link__partner=other.at_r).count() == 1
    held = InboundMessage.objects.get(link__partner=broken.from_a)
    assert (held.state, held.forward_failures) == ("routed", 1)
    assert held.forward_error == "RuntimeError: what nobody has thought of"
    incident = Incident.objects.get()
    assert (incident.partner, incident.kind) == (broken.from_a, "route_failed")


def test_one_thread_of_a_process_sends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a steady stream each sweep would else keep one thread more of the worker."""
    polls: list[str] = []
    inside, release = threading.Event(), threading.Event()

    def poll(_: int) -> list[Due]:
        polls.append(threading.current_thread().name)
        inside.set()
        release.wait(30)
        return []

    monkeypatch.setattr(forward, "find_due", poll)
    first = threading.Thread(target=forward.run, name="first")
    first.start()
    inside.wait(30)
    second = threading.Thread(target=forward.run, name="second")
    second.start()
    second.join(30)
    assert not second.is_alive()
    release.set()
    first.join(30)
    assert polls == ["first", "first"], "the poll that the second asked for"
