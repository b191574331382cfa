"""Messages that are forwarded: which come next, and which signals go back."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from msh.flows.operations import cancel
from msh.models import History, InboundLink, InboundMessage, OutboundMessage, Signal
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.kinds import RouteMode, Verdict
from msh.store.receiving import forwarding
from msh.transport.job import Job
from partners.models import Agreement
from tests.sql import Calls, Execute, wrap_execute

from .chain import Chain, make_chain
from .recovering import ANN

pytestmark = pytest.mark.django_db

ACK, FAILURE = ("Acknowledgement", ""), ("Error", "DeliveryFailure")
REFUSED = AttemptResult(AttemptOutcome.REFUSED, status=413, detail="413 too large")
PAST, FUTURE = timezone.now() - timedelta(days=1), timezone.now() + timedelta(days=1)


def due() -> list[int]:
    """Row ids of the messages that may be forwarded now."""
    return [one.id for one in forwarding.find_due(50)]


def stored(*chains: Chain, count: int = 1) -> list[list[int]]:
    """Of each chain, row ids of messages from A that wait at the router to be forwarded, and
    were acknowledged to A."""
    for chain in chains:
        for _ in range(count):
            chain.submit()
        chain.settle()
    InboundMessage.objects.filter(state="forwarded").update(state="routed")
    of_router = InboundMessage.objects.filter(state="routed").order_by("pk")
    return [
        list(of_router.filter(link__partner=chain.from_a).values_list("pk", flat=True))
        for chain in chains
    ]


# --- which come next ------------------------------------------------------------------------------


def test_the_head_of_each_pair_is_sent_on_and_the_oldest_of_all_first() -> None:
    chains = [make_chain() for _ in range(3)]
    for chain in chains:
        InboundLink.objects.create(partner=chain.from_a)
    waiting = stored(chains[1], chains[0], chains[2], count=2)
    assert due() == [keys[0] for keys in waiting]
    assert [one.id for one in forwarding.find_due(1)] == [waiting[0][0]]
    InboundMessage.objects.filter(pk=waiting[0][0]).update(state="forwarded")
    assert due() == sorted([waiting[0][1], waiting[1][0], waiting[2][0]])


@pytest.mark.parametrize(
    ("values", "goes"),
    [({}, True), ({"forward_due": PAST}, True), ({"forward_due": FUTURE}, False)],
)
def test_one_that_failed_waits_and_those_behind_it(values: dict[str, Any], goes: bool) -> None:
    ((first, _),) = stored(make_chain(), count=2)
    InboundMessage.objects.filter(pk=first).update(**values)
    assert due() == ([first] if goes else [])


@pytest.mark.parametrize(
    ("values", "held"),
    [
        ({"pending": 1, "transmitted": 0}, True),
        ({"pending": 1, "transmitted": 1}, False),  # a copy owes it again
        ({"pending": 0, "transmitted": 0}, False),  # the partner does not take it
        ({"pending": 1, "transmitted": 0, "kind": "Error", "inbound_id": 0}, False),
        ({"pending": 1, "transmitted": 0, "inbound_id": 2**40}, False),
    ],
)
@pytest.mark.parametrize("state", ["routed", "withheld"])
def test_only_its_own_untransmitted_ack_holds_it(
    values: dict[str, Any], held: bool, state: str
) -> None:
    """The Ack of the same MessageId to another partner is not it."""
    chain, other = make_chain(), make_chain()
    (key,), _ = stored(chain, other)
    message_id = InboundMessage.objects.get(pk=key).message_id
    InboundMessage.objects.exclude(pk=key).update(state="forwarded")
    InboundMessage.objects.filter(pk=key).update(state=state)
    of_other = Signal.objects.filter(link__partner=other.from_a)
    of_other.update(pending=1, transmitted=0, ref_to_message_id=message_id)
    Signal.objects.filter(link__partner=chain.from_a).update(**values)
    assert due() == ([] if held and state == "routed" else [key])


def test_one_that_was_sent_on_meanwhile_is_not_held() -> None:
    ((key,),) = stored(make_chain())
    (found,) = forwarding.find_due(50)
    assert forwarding.lock_routed(found) is not None
    InboundMessage.objects.filter(pk=key).update(state="forwarded")
    assert forwarding.lock_routed(found) is None


def test_the_same_message_id_of_another_pair_is_not_to_be_sent_on() -> None:
    chain, other = make_chain(), make_chain()
    for one in (other, chain):
        one.submit(message_id="order-1")
        if one is other:
            one.settle()
    (job,) = chain.poll()
    chain.hand_over(job)
    states = InboundMessage.objects.order_by("pk").values_list("state", flat=True)
    assert list(states) == ["forwarded", "accepted", "routed"]


# --- what the MSH before gets --------------------------------------------------------------


def forwarded(chain: Chain) -> Job:
    """A message of A is on its way to B, its Ack withheld."""
    chain.submit()
    (job,) = chain.poll()
    chain.transmit(job)
    (onward,) = (one for one in chain.poll() if one.partner_id == chain.at_r.pk)
    return onward


def test_the_ack_of_b_completes_the_message_it_is_about_and_no_other() -> None:
    chain, other = make_chain(RouteMode.END_TO_END), make_chain(RouteMode.END_TO_END)
    forwarded(other)
    onward = forwarded(chain)
    Agreement.objects.filter(partner=chain.from_a).update(tpa_id="tpa-a")
    chain.hand_over(onward)
    (ack,) = (job for job in chain.poll() if job.partner_id == chain.from_r.pk)
    chain.hand_over(ack)

    assert chain.pending_for(chain.from_a) == [ACK]
    assert Signal.objects.get(link__partner=chain.from_a).tpa_id == "tpa-a"
    states = InboundMessage.objects.filter(link__partner__in=[chain.from_a, other.from_a])
    assert list(states.order_by("pk").values_list("state", flat=True)) == [
        "forwarding",
        "forwarded",
    ]

    chain.hand_over(ack)
    assert Signal.objects.get(link__partner=chain.from_a).pending == 1
    assert History.objects.filter(event="OnwardAcknowledged").count() == 1


def test_late_ack_of_a_message_cancelled_by_the_router_reaches_a() -> None:
    chain = make_chain(RouteMode.END_TO_END)
    onward = forwarded(chain)
    chain.hand_over(onward)
    message = OutboundMessage.objects.get(link__partner=chain.at_r)
    cancel.cancel(message, Verdict.UNKNOWN, ANN)
    assert chain.pending_for(chain.from_a) == [FAILURE]

    chain.settle()

    message = OutboundMessage.objects.get(link__partner=chain.at_a)
    assert (message.state, chain.link(chain.at_a).late_ack) == ("acknowledged", True)


def test_failure_is_sent_for_each_copy() -> None:
    chain = make_chain(RouteMode.END_TO_END)
    onward = forwarded(chain)
    chain.end(onward, REFUSED)
    failure = Signal.objects.filter(link__partner=chain.from_a)
    failure.update(due=FUTURE)
    message = OutboundMessage.objects.get(link__partner=chain.at_r)
    cancel.cancel(message, Verdict.UNKNOWN, ANN)
    again = failure.get()
    assert (again.pending, again.due < FUTURE) == (2, True)


def test_acknowledged_message_gets_no_delivery_failure() -> None:
    """In `hop` mode the message is the router's own."""
    chain = make_chain()
    chain.submit()
    (job,) = chain.poll()
    chain.transmit(job)
    chain.transmit(*chain.poll())
    (onward,) = chain.poll()
    chain.end(onward, REFUSED)
    assert chain.pending_for(chain.from_a) == []
    assert InboundMessage.objects.get(link__partner=chain.from_a).state == "forwarded"


def test_pending_signals_of_a_message_are_locked_before_the_incident_of_its_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The order of row locks in ARCHITECTURE.md."""
    chain = make_chain(RouteMode.END_TO_END)
    chain.submit()
    chain.transmit(chain.poll()[0])
    (onward,) = chain.poll()
    written: list[str] = []

    def note(execute: Execute, calls: Calls) -> Any:
        written.extend(call.statement.sql for call in calls)
        return execute(calls)

    wrap_execute(monkeypatch, note)
    chain.end(onward, REFUSED)

    (pending,) = [at for at, sql in enumerate(written) if "INSERT INTO msh_signal" in sql]
    (incident,) = [at for at, sql in enumerate(written) if "INSERT INTO msh_incident" in sql]
    assert pending < incident
