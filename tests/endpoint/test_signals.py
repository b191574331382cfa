"""Acknowledgements and Errors that are not of the pair, and a MessageId that is too long."""

import pytest
from django.db.models import Sum

from msh.flows.operations import change_link
from msh.flows.operations.cancel import cancel
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.sending.submit import submit
from msh.models import History, OutboundLink, OutboundMessage, Signal
from msh.protocol.kinds import Verdict
from msh.protocol.reason import Refusal
from msh.store.history import Actor
from partners.models import Agreement, Partner
from tests.flows import byhand
from tests.peer import Draft, Peer, acknowledgement, error, normal

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def in_flight(partner: Partner) -> OutboundMessage:
    """A message that waits for its Acknowledgement."""
    message = submit(Agreement.objects.get(), "Orders", "New", [])
    (job,) = byhand.poll()
    byhand.end(job)
    return message


def signals(message: OutboundMessage, **fields: str) -> list[Draft]:
    of = message.message_id
    return [acknowledgement(of, **fields), error(of, "NotSupported", **fields)]


def states(message: OutboundMessage) -> tuple[str, str]:
    message.refresh_from_db()
    return OutboundLink.objects.get().state, message.state


@pytest.mark.parametrize("field", ["sender_uri", "receiver_uri"])
def test_signal_that_is_not_of_the_pair_is_403_and_recorded(
    peer: Peer, in_flight: OutboundMessage, field: str
) -> None:
    """D49, D55."""
    for _ in range(3):
        for draft in signals(in_flight, **{field: "http://else.example/"}):
            assert peer.send(draft).status == 403
    assert states(in_flight) == ("waiting", "in_flight")
    rows = History.objects.filter(event="RequestRefused", code=Refusal.AGREEMENT)
    assert rows.count() <= 2, "one a minute, whatever it refers to"
    assert rows.aggregate(n=Sum("times"))["n"] == 6


@pytest.mark.parametrize("field", ["from_party", "to_party"])
def test_signal_from_others_moves_nothing(
    peer: Peer, in_flight: OutboundMessage, field: str
) -> None:
    for draft in signals(in_flight, **{field: "http://else.example/"}):
        assert peer.send(draft).status == 204
    assert states(in_flight) == ("waiting", "in_flight")


def test_error_of_the_pair_suspends(peer: Peer, in_flight: OutboundMessage) -> None:
    assert peer.send(error(in_flight.message_id, "NotSupported")).status == 204
    assert states(in_flight) == ("suspended", "in_flight")


# --- a lane whose stored terms cannot be read -----------------------------------------------------


def spoil_terms(message: OutboundMessage) -> None:
    OutboundMessage.objects.filter(pk=message.pk).update(terms={"timeout": "soon"})


@pytest.mark.requirement("000-021")
def test_ack_completes_a_message_with_unreadable_terms(
    peer: Peer, in_flight: OutboundMessage
) -> None:
    spoil_terms(in_flight)
    following = submit(Agreement.objects.get(), "Orders", "New", [])

    response = peer.send(acknowledgement(in_flight.message_id))

    assert (response.status, response.error) == (204, "")
    assert states(in_flight) == ("waiting", "acknowledged")
    assert OutboundLink.objects.get().in_flight == following


def test_late_ack_resumes_a_link_suspended_for_unreadable_terms(
    peer: Peer, in_flight: OutboundMessage
) -> None:
    spoil_terms(in_flight)
    OutboundLink.objects.update(due="2026-01-01T00:00Z")
    byhand.run_until_quiet(SendingLoop())
    assert states(in_flight) == ("suspended", "in_flight")

    assert peer.send(acknowledgement(in_flight.message_id)).status == 204

    assert states(in_flight) == ("suspended", "acknowledged")
    assert OutboundLink.objects.get().late_ack
    change_link.resume(Partner.objects.get(), Actor("ann", "fixed"))
    assert states(in_flight) == ("idle", "acknowledged")


def test_signal_that_needs_unreadable_terms_is_503(peer: Peer, in_flight: OutboundMessage) -> None:
    spoil_terms(in_flight)

    response = peer.send(error(in_flight.message_id, "TransientError"))

    assert response.status == 503
    assert response.headers["Retry-After"] == "5"
    assert "the state of your link cannot be read" in response.error
    assert states(in_flight) == ("waiting", "in_flight")


def test_link_with_unreadable_terms_can_be_suspended(
    peer: Peer, in_flight: OutboundMessage
) -> None:
    """So that an operator can repair it without writing SQL."""
    spoil_terms(in_flight)
    change_link.suspend(Partner.objects.get(), Actor("ann", "its terms"))

    cancel(in_flight, Verdict.UNKNOWN, Actor("ann", "submitted anew"))

    assert states(in_flight)[1] == "cancelled"


def test_too_long_message_id_is_answered_with_an_error(peer: Peer) -> None:
    """D44 as changed: what is read and attributed is 204, its answer is the Error Message."""
    response = peer.send(normal(message_id="m" * 256))
    assert response.status == 204
    assert "MessageId" in response.error
    assert Signal.objects.get().code == "ValueNotRecognized"
