"""A router acknowledges when the next MSH has acknowledged (000 §4.1, D20)."""

import pytest

from msh.flows.operations import change_link, resynchronise
from msh.flows.receiving.link_status import status_for
from msh.models import (
    OutboundMessage,
    PartyEvent,
    Signal,
)
from msh.protocol.kinds import RouteMode
from tests.flows.chain import make_chain
from tests.flows.routing.router import (
    ACK,
    FAILURE,
    OPERATOR,
    REFUSED,
    TRANSIENT,
    ask_to_wait,
    chain_ack,
    one,
    read,
    sent_to_router,
    to,
)
from tests.flows.world import LOST

pytestmark = pytest.mark.django_db


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
