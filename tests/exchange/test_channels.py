"""Two real MSHs under an agreement with channels: business reliable, signals best effort; terms and
addresses by Action (EB-201)."""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from msh.flows.operations import configure
from msh.flows.sending.submit import submit
from msh.models import InboundMessage, OutboundMessage, Signal
from msh.protocol.ebms.vocabulary import SERVICE
from msh.protocol.message import Payload
from msh.store.history import Actor
from partners.models import Agreement
from tests.exchange.machine import Machine
from tests.exchange.running import two_machines
from tests.peer import Peer
from tests.peer.ebms2 import Envelope
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("EB-201")

WITHIN = 90.0  # seconds
PAYLOADS = [Payload(b"<order/>", "application/xml")]


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[tuple[Machine, Machine]]:
    with django_db_blocker.unblock(), two_machines("channels", tmp_path_factory) as (a, b):
        yield a, b


def channel(direction: str, action: str, **terms: Any) -> dict[str, Any]:
    return {"direction": direction, "service": "urn:orders", "action": action, **terms}


def agree(here: Machine, there: Machine, ours: str, *channels: dict[str, Any]) -> None:
    """Set up the other MSH as the partner of this one, with these channels and no others."""
    theirs = "ba"["ab".index(ours)]
    agreement = {
        "dialect": "ebms2",
        "tpa_id": "cpa",
        "our_party": ours,
        "their_party": theirs,
        "our_party_type": "DUNS",
        "their_party_type": "DUNS",
        "retry_interval": 2,
        "retries": 20,
        "channels": list(channels),
    }
    partner = {
        "name": theirs,
        "uri": there.uri,
        "address": there.url,
        "token_out": f"the-secret-token-of-{ours}",
        "token_in": f"the-secret-token-of-{theirs}",
        "agreements": [agreement],
    }
    with here.database():
        configure.apply({"partners": [partner]}, Actor("ann", "because"))


def submitted(here: Machine, action: str) -> str:
    with here.database():
        agreement = Agreement.objects.get()
        return submit(agreement, "urn:orders", action, PAYLOADS).message_id


def until_state(here: Machine, message_id: str, state: str) -> OutboundMessage:
    with here.database():
        rows = OutboundMessage.objects.filter(message_id=message_id)
        wait_until(lambda: rows.get().state == state, seconds=WITHIN)
        return rows.get()


def until_received(there: Machine, message_id: str) -> InboundMessage:
    with there.database():
        rows = InboundMessage.objects.filter(message_id=message_id)
        wait_until(rows.exists, seconds=WITHIN)
        return rows.get()


def test_business_is_reliable_and_signals_go_once(both: tuple[Machine, Machine]) -> None:
    """And each Action has its own terms, on both sides."""
    a, b = both
    order, hint = {"ack": "always", "ordered": True}, {"ack": "never", "eliminates": "never"}
    best_effort = {**hint, "semantics": "BestEffort"}
    agree(a, b, "a", channel("out", "New", **order), channel("out", "Hint", **best_effort))
    agree(b, a, "b", channel("in", "New", **order), channel("in", "Hint", **hint))

    new, hinted = submitted(a, "New"), submitted(a, "Hint")

    assert until_state(a, new, "acknowledged").order_number == 0
    assert until_state(a, hinted, "sent").order_number is None
    assert until_received(b, new).order_number == 0
    assert until_received(b, hinted).order_number is None
    with b.database():
        assert Signal.objects.filter(ref_to_message_id=new).get().kind == "Acknowledgement"
        assert not Signal.objects.filter(ref_to_message_id=hinted).exists()


def test_an_action_that_only_one_side_lists_fails_with_the_partners_error(
    both: tuple[Machine, Machine],
) -> None:
    a, b = both
    agree(a, b, "a", channel("out", "New"), channel("out", "Old"))
    agree(b, a, "b", channel("in", "New"))

    old, new = submitted(a, "Old"), submitted(a, "New")

    until_state(a, old, "failed")
    until_state(a, new, "acknowledged")
    with b.database():
        error = Signal.objects.get(ref_to_message_id=old)
        assert (error.kind, error.code) == ("Error", "ValueNotRecognized")
        assert error.location.endswith("/eb:Action")
        assert not InboundMessage.objects.filter(message_id=old).exists()


def test_an_action_has_its_own_address_and_retries_and_a_signal_its_own_address(
    both: tuple[Machine, Machine],
) -> None:
    a, b = both
    with Peer() as stock, Peer() as errors:
        silent = channel("out", "Stock", address=stock.address, retries=1, retry_interval=1)
        agree(a, b, "a", channel("out", "New"), silent, channel("out", "Old"))
        override = channel("out", "MessageError", service=SERVICE, address=errors.address)
        agree(b, a, "b", channel("in", "New"), override)

        lost, refused, new = (submitted(a, action) for action in ("Stock", "Old", "New"))

        until_state(a, new, "acknowledged")
        until_state(a, lost, "failed")
        copies = [lost.encode() in one.body for one in stock.received.all()]
        assert copies == [True, True]
        assert "Authorization" not in stock.received.all()[0].headers
        came, *_ = errors.received.wait_for_count(1, lambda one: True, timeout=WITHIN)
        error = Envelope(came.body)
        about = error.text("eb:MessageData/eb:RefToMessageId")
        assert (error.text("eb:Action"), about) == ("MessageError", refused)
