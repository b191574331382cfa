"""A router between two MSHs: what it stores, acknowledges, sends on and refuses (000 §4.1, D20)."""

from typing import Any

import pytest

from msh.flows.hints import EVERYTHING
from msh.flows.operations import change_link
from msh.flows.receiving import forward
from msh.models import (
    History,
    InboundMessage,
    Incident,
    OutboundMessage,
    PartyEvent,
    Signal,
)
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.kinds import RouteMode
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.operations.operator_actions import Switch
from msh.store.receiving.forwarding import find_next_hop
from partners.models import Agreement, Route
from tests.flows import byhand
from tests.flows.chain import make_chain
from tests.flows.routing.router import OPERATOR, REFUSED, TRANSIENT, one, read, sent_to_router, to

pytestmark = pytest.mark.django_db


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
    byhand.run_until_quiet(forward.ForwardingLoop())

    assert OutboundMessage.objects.filter(link__partner=other.at_r).count() == 1
    held = InboundMessage.objects.get(link__partner=broken.from_a)
    assert (held.state, held.forward_failures) == ("routed", 1)
    assert held.forward_error == "RuntimeError: what nobody has thought of"
    incident = Incident.objects.get()
    assert (incident.partner, incident.kind) == (broken.from_a, "route_failed")


def test_forwarding_goes_on_while_something_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not while its worker is stopping."""
    found = [2, 1, 0, 5]
    monkeypatch.setattr(forward, "forward", lambda: found.pop(0))
    loop = forward.ForwardingLoop()
    assert loop.round(EVERYTHING)
    assert found == [5]

    loop.stop()
    assert not loop.round(EVERYTHING)
    assert found == [5]
