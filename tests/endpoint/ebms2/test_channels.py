"""What the partner sends under an agreement with channels (EB-201)."""

from collections.abc import Callable
from typing import Any

import pytest

from msh.models import InboundMessage
from partners.models import Agreement, Channel, Partner
from tests.endpoint.ebms2 import Send, answers
from tests.keys import new_key, pem_of
from tests.peer.ebms2 import SYNC_REPLY, Envelope, Outgoing, message, message_order

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.requirement("EB-201")]

List = Callable[..., Channel]


@pytest.fixture
def list_channel(ebms2: Partner) -> List:
    def create(action: str, direction: str = "in", **terms: Any) -> Channel:
        return Channel.objects.create(
            agreement=Agreement.objects.get(),
            direction=direction,
            service="urn:peer:orders",
            action=action,
            **terms,
        )

    return create


def sent(send: Send, **fields: Any) -> list[str]:
    """The Actions of the answers."""
    out = of_order(**fields)
    send(out)
    return [one.action for one in answers(out)]


def of_order(**fields: Any) -> Outgoing:
    return message(**{"service": "urn:peer:orders", "action": "New", **fields})


def refused(send: Send, **fields: Any) -> list[tuple[str, str]]:
    """The errors of the answer: code, and the last step of the place."""
    out, stored = of_order(**fields), InboundMessage.objects.count()
    send(out)
    (answer,) = answers(out)
    assert (answer.action, InboundMessage.objects.count()) == ("MessageError", stored)
    return [(code, place.rpartition("/")[2]) for code, place in answer.errors]


TAKEN = ["Acknowledgment"]
NO_ACTION = [("ValueNotRecognized", "eb:Action")]


def test_only_what_is_listed_is_taken(send: Send, list_channel: List) -> None:
    list_channel("New")
    assert sent(send) == TAKEN

    assert refused(send, action="Old") == NO_ACTION
    assert refused(send, service="urn:x") == [("ValueNotRecognized", "eb:Service")]


def test_services_that_differ_by_type_have_the_terms_of_each(
    send: Send, list_channel: List
) -> None:
    list_channel("New", service_type="be", ack="never", eliminates="never")
    list_channel("New", service_type="rm", ack="always")
    plain = {"ack_requested": "", "eliminates": False}

    for _ in range(2):  # the second time it is cached
        assert sent(send, service_type="rm") == TAKEN
        assert sent(send, service_type="be", **plain) == []
        wrong = refused(send, service_type="rm", **plain)
        assert wrong == [("Inconsistent", "eb:AckRequested")]
    for other in ("odd", ""):
        wrong = refused(send, service_type=other)
        assert ("ValueNotRecognized", "eb:Service") in wrong
    assert InboundMessage.objects.count() == 4


def test_channels_of_what_we_send_list_nothing_of_what_the_partner_sends(
    send: Send, list_channel: List
) -> None:
    list_channel("New", direction="out")
    assert sent(send, action="Old") == TAKEN


def test_a_change_of_channels_counts_at_once_in_every_process(
    send: Send, list_channel: List
) -> None:
    """The agreement is cached by then."""
    for _ in range(3):
        assert sent(send, action="Old") == TAKEN
    channel = list_channel("New")
    for _ in range(2):
        assert refused(send, action="Old") == NO_ACTION
    channel.action = "Old"
    channel.save()
    assert sent(send, action="Old") == TAKEN
    channel.delete()
    assert sent(send, action="New") == TAKEN


def test_terms_differ_by_action(send: Send, list_channel: List) -> None:
    list_channel("New", ack="always", their_role="Buyer")
    list_channel("Hint", ack="never", eliminates="never")
    plain = {"ack_requested": "", "eliminates": False}

    assert sent(send, from_role="Buyer") == TAKEN
    assert sent(send, action="Hint", **plain) == []
    too_much = refused(send, action="Hint", eliminates=False)
    assert too_much == [("Inconsistent", "eb:AckRequested")]
    assert refused(send, from_role="Thief") == [("ValueNotRecognized", "eb:Role")]
    assert InboundMessage.objects.count() == 2


def test_only_messages_of_a_channel_that_says_so_must_be_signed(
    send: Send, list_channel: List
) -> None:
    Agreement.objects.update(certificate=pem_of(new_key("them")))
    list_channel("New", signed=True)
    list_channel("Hint")

    assert refused(send) == [("SecurityFailure", "ds:Signature")]
    assert sent(send, action="Hint") == TAKEN


def test_messages_of_one_action_are_in_order_those_of_another_are_not(
    send: Send, list_channel: List
) -> None:
    list_channel("New", ordered=True)
    list_channel("Hint")

    assert sent(send, extra=message_order(0, "Reset")) == TAKEN
    assert sent(send, action="Hint") == TAKEN
    assert sent(send, extra=message_order(1)) == TAKEN

    ordered = InboundMessage.objects.exclude(ordered_in=None)
    assert {(one.action, one.order_number) for one in ordered} == {("New", 0), ("New", 1)}
    not_agreed = refused(send, action="Hint", extra=message_order(2))
    assert not_agreed == [("NotSupported", "eb:MessageOrder")]


def test_answers_go_where_the_channel_says(send: Send, list_channel: List) -> None:
    list_channel("New", sync_reply="mshSignalsOnly")
    list_channel("Hint")
    response = send(of_order(extra=SYNC_REPLY))
    assert (response.status, Envelope(response.body).action) == (200, "Acknowledgment")
    (problem,) = refused(send, action="Hint", extra=SYNC_REPLY)
    assert problem == ("Inconsistent", "eb:SyncReply")
