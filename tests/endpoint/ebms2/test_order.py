"""Messages in the order of their conversation: what is held, what is delivered when."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from msh.models import ConsumerKind, InboundConversation, InboundMessage, Incident, Signal
from partners.models import Partner
from tests.delivery import application
from tests.delivery.desk import Desk, consumer
from tests.endpoint.ebms2 import Send, answers, let_answers_leave
from tests.peer.ebms2 import SYNC_REPLY, Outgoing, message, message_order

pytestmark = pytest.mark.django_db(transaction=True)


def numbered(number: int, *, resets: bool | None = None, **fields: Any) -> Outgoing:
    """Of conversation-1, if no other is named; number 0 is Reset."""
    status = "Reset" if (number == 0 if resets is None else resets) else "Continue"
    extra = message_order(number, status) + fields.pop("extra", "")
    return message(message_id=f"m{number}@peer.example", **{"extra": extra, **fields})


@pytest.fixture(autouse=True)
def _ordered(ebms2: Partner) -> Iterator[None]:
    ebms2.agreements.update(ordered=True)
    consumer(ConsumerKind.IN_PROCESS)
    application.reset()
    yield
    application.reset()


def take(send: Send, *messages: Outgoing) -> None:
    for out in messages:
        response = send(out)
        assert (response.status, response.error) == (204, ""), out.message_id


def delivered() -> list[str]:
    """The MessageIds that the application has got by now, in this order."""
    Desk().settle()
    return [one.partition("@")[0] for one in application.taken]


def states() -> dict[str, str]:
    rows = InboundMessage.objects.values_list("message_id", "state")
    return {message_id.partition("@")[0]: state for message_id, state in rows}


def refusal(send: Send, out: Outgoing) -> tuple[str, str]:
    """Code and place of the Error that answers it."""
    response = send(out)
    assert (response.status, response.body) == (204, b"")
    errors = [one for one in answers(out) if one.action == "MessageError"]
    code, place = errors[-1].errors[0]
    return code, place.rpartition("/")[2]


AT_NUMBER = ("Inconsistent", "eb:SequenceNumber")


@pytest.mark.requirement("EB-127")
def test_messages_are_acknowledged_at_once_and_delivered_in_order(send: Send) -> None:
    for number in (0, 3, 2):
        out = numbered(number)
        take(send, out)
        assert [one.action for one in answers(out)] == ["Acknowledgment"]
    assert delivered() == ["m0"]
    assert states() == {"m0": "delivered", "m2": "held", "m3": "held"}

    take(send, numbered(1), numbered(4))

    assert delivered() == ["m0", "m1", "m2", "m3", "m4"]


@pytest.mark.requirement("EB-127", "EB-112")
def test_copies_of_what_is_held_get_the_first_answer(send: Send) -> None:
    take(send, numbered(0), numbered(2))
    let_answers_leave()
    take(send, numbered(2), numbered(0))

    assert InboundMessage.objects.get(message_id="m2@peer.example").duplicates == 1
    assert [one.pending for one in Signal.objects.order_by("pk")] == [1, 1]
    take(send, numbered(1), numbered(2))
    assert delivered() == ["m0", "m1", "m2"]


@pytest.mark.requirement("EB-128")
def test_lower_number_and_held_number_of_another_message_are_refused(send: Send) -> None:
    take(send, numbered(0), numbered(1), numbered(3))
    stale, conflict = (numbered(n).but(message_id=f"other-{n}") for n in (1, 3))

    assert [refusal(send, one) for one in (stale, conflict)] == [AT_NUMBER, AT_NUMBER]

    take(send, numbered(2))
    assert refusal(send, conflict) == AT_NUMBER  # kept: the same answer to each copy
    assert delivered() == ["m0", "m1", "m2", "m3"]


@pytest.mark.requirement("EB-129")
def test_reset_starts_anew_when_nothing_waits(send: Send) -> None:
    take(send, numbered(0), numbered(1), numbered(3))
    again = numbered(0).but(message_id="again-0")
    assert refusal(send, again) == AT_NUMBER  # something is held
    assert refusal(send, numbered(5, resets=True)) == AT_NUMBER
    take(send, numbered(2))
    later = send(again)
    assert (later.status, later.headers["Retry-After"]) == (503, "30")
    assert delivered() == ["m0", "m1", "m2", "m3"]

    for number in (0, 2):  # of another conversation: one not delivered yet, one held
        other = numbered(number, conversation_id="conversation-2")
        take(send, other.but(message_id=f"other-{number}"))

    take(send, again, *(numbered(n).but(message_id=f"again-{n}") for n in (2, 1)))

    assert sorted(delivered()[4:]) == ["again-0", "again-1", "again-2", "other-0"]
    incident = Incident.objects.get(kind="order_restarted")
    assert (incident.message_id, incident.count) == ("again-0", 1)
    assert "conversation-1" in incident.detail


@pytest.mark.requirement("EB-130")
def test_conversation_that_begins_with_another_number_is_held(send: Send) -> None:
    take(send, numbered(5), numbered(0, resets=False))

    assert delivered() == []
    assert states() == {"m5": "held", "m0": "held"}
    assert InboundConversation.objects.get().next_number is None


@pytest.mark.requirement("EB-131")
def test_what_is_beyond_a_hundred_held_is_not_delivered(send: Send) -> None:
    take(send, numbered(0))
    conversation, first = InboundConversation.objects.get(), InboundMessage.objects.get()
    InboundMessage.objects.bulk_create(
        InboundMessage(
            link=first.link,
            agreement=first.agreement,
            message_id=f"held-{number}",
            semantics=first.semantics,
            state="held",
            sent_at=first.sent_at,
            received_at=first.received_at,
            content_digest=bytes(32),
            header=b"",
            ordered_in=conversation,
            order_number=number,
        )
        for number in range(2, 101)
    )
    take(send, numbered(101))
    beyond = numbered(102)

    assert refusal(send, beyond) == ("DeliveryFailure", "eb:SequenceNumber")
    assert "Error" in answers(beyond)[0].all("eb:Error")[0].attrib.values()
    take(send, numbered(1), beyond)  # judged anew: there is room
    assert delivered() == ["m0", "m1", *(f"held-{n}" for n in range(2, 101)), "m101", "m102"]


@pytest.mark.requirement("EB-134")
def test_conversations_do_not_wait_for_each_other(send: Send) -> None:
    def failing(arrived: InboundMessage) -> None:
        if arrived.message_id.startswith("m0@"):
            raise ValueError("not now")

    application.act = failing
    take(send, numbered(0), numbered(2))
    for number in (0, 1):
        out = numbered(number).but(conversation_id="conversation-2", message_id=f"other-{number}")
        take(send, out)
    take(send, message(message_id="without-order", ack_requested="", eliminates=False))

    assert sorted(delivered()) == ["m0", "other-0", "other-1", "without-order"]
    assert states()["m0"] == "accepted"
    assert [one for one in states().values() if one == "delivered"] == ["delivered"] * 3


@pytest.mark.requirement("EB-126")
def test_services_and_actions_of_one_conversation_share_its_order(send: Send) -> None:
    take(send, numbered(1, service="urn:example:invoices", action="Invoice"), numbered(0))

    assert delivered() == ["m0", "m1"]


@pytest.mark.requirement("EB-125", "EB-076")
def test_order_needs_both_elements_and_no_sync_reply(send: Send, ebms2: Partner) -> None:
    ebms2.agreements.update(lenient=["EB-043"])
    take(send, numbered(0))

    assert refusal(send, numbered(1, eliminates=False))[0] == "Inconsistent"
    assert refusal(send, numbered(2, ack_requested=""))[0] == "Inconsistent"
    assert refusal(send, numbered(3, extra=SYNC_REPLY))[0] == "Inconsistent"
    assert refusal(send, message(message_id="without@peer.example")) == AT_NUMBER
    assert states() == {"m0": "accepted"}


@pytest.mark.requirement("EB-133")
def test_lenient_agreement_takes_numbers_in_order_and_messages_without(
    send: Send, ebms2: Partner
) -> None:
    ebms2.agreements.update(lenient=["EB-133"])
    take(send, *(message(message_id=f"without-{n}") for n in range(3)))

    take(send, numbered(0), numbered(2))

    assert delivered() == ["without-0", "without-1", "without-2", "m0"]
    assert states()["m2"] == "held"


@pytest.mark.requirement("EB-127", "EB-113", "EB-128")
def test_messages_and_copies_that_come_at_once_are_in_order(send: Send) -> None:
    numbers = list(range(12))
    messages = [numbered(n) for n in numbers] * 2
    rivals = [numbered(n).but(message_id=f"rival-{n}") for n in numbers[1:]]
    random.Random(1).shuffle(messages)

    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(lambda out: send(out).status, [*messages, *rivals]))

    assert set(statuses) == {204}
    stored = InboundMessage.objects.order_by("order_number")
    assert list(stored.values_list("order_number", flat=True)) == numbers
    assert delivered() == [one.message_id.partition("@")[0] for one in stored]
    assert all(len(answers(out)) == 1 for out in messages)
