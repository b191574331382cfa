"""Acknowledgment or MessageError as the HTTP answer to the message (SyncReply)."""

import pytest

from msh.models import InboundMessage, Signal
from partners.models import Partner
from tests.endpoint.ebms2 import Send, answers, assert_refused
from tests.peer.ebms2 import NEXT_MSH, SYNC_REPLY, Envelope, Outgoing, ack_requested, message
from tests.peer.sending import Response

from .test_errors import ORDERED, PAST

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _agreed(ebms2: Partner) -> None:
    ebms2.agreements.update(sync_reply="mshSignalsOnly")


def asking(**fields: object) -> Outgoing:
    return message(**{"extra": SYNC_REPLY, **fields})


def answer_in(response: Response) -> Envelope:
    assert response.status == 200
    assert response.headers["Content-Type"] == 'text/xml; charset="UTF-8"'
    assert response.headers["SOAPAction"] == '"ebXML"'
    return Envelope(response.body)


def pending() -> list[int]:
    return list(Signal.objects.order_by("pk").values_list("pending", flat=True))


@pytest.mark.requirement("EB-073", "EB-097", "EB-110", "EB-111", "EB-112", "EB-153")
def test_acknowledgment_is_the_answer_and_each_copy_gets_the_same(send: Send) -> None:
    out = asking(ack_requested=ack_requested() + ack_requested(NEXT_MSH))

    first, second = send(out), send(out.but(boundary="second"))

    ack = answer_in(first)
    assert (ack.action, ack.ref_to_message_id) == ("Acknowledgment", out.message_id)
    assert len(ack.all("eb:Acknowledgment")) == 2
    assert second.body == first.body
    stored = InboundMessage.objects.get()
    assert (stored.message_id, stored.duplicates) == (out.message_id, 1)
    assert pending() == [0]  # nothing follows by a POST of its own
    assert Signal.objects.get().transmitted == 2


@pytest.mark.requirement("EB-053", "EB-066", "EB-073", "EB-112")
def test_message_error_is_the_answer_and_each_copy_gets_the_same(send: Send) -> None:
    out = asking(time_to_live=PAST)

    first, second = send(out), send(out)

    error = answer_in(first)
    assert error.errors[0][0] == "TimeToLiveExpired"
    assert (second.status, second.body) == (200, first.body)
    assert first.error
    assert pending() == [0]
    changed = answer_in(send(out.but(action="Cancel")))  # other content under a refused id
    assert changed.errors[0][0] == "Inconsistent"


@pytest.mark.requirement("EB-112")
@pytest.mark.parametrize("sync_first", [True, False])
def test_copies_of_both_kinds_get_one_answer(send: Send, ebms2: Partner, sync_first: bool) -> None:
    """The sender has lost its answer and asks the other way."""
    ebms2.agreements.update(lenient=["EB-043"])
    sync = asking()
    both = (sync, sync.but(extra="")) if sync_first else (sync.but(extra=""), sync)

    bodies = sorted(send(one).body for one in both)

    signal = Signal.objects.get()
    assert bodies == [b"", bytes(signal.body or b"")]
    assert signal.pending == 1


@pytest.mark.requirement("EB-043", "EB-074", "EB-075")
def test_sync_reply_is_there_as_agreed(send: Send, ebms2: Partner) -> None:
    assert_refused(send, message(), ("Inconsistent", "eb:SyncReply"))  # by a POST of its own

    ebms2.agreements.update(sync_reply="none")
    assert_refused(send, asking(), ("Inconsistent", "eb:SyncReply"))


@pytest.mark.requirement("EB-073")
@pytest.mark.parametrize(
    ("mode", "status"), [("signalsOnly", 200), ("signalsAndResponse", 200), ("responseOnly", 204)]
)
def test_which_modes_answer_signals_on_the_connection(
    send: Send, ebms2: Partner, mode: str, status: int
) -> None:
    ebms2.agreements.update(sync_reply=mode)
    sent = [asking() for _ in range(3)]  # the last one finds the partner remembered

    assert [send(out).status for out in sent] == [status] * 3

    assert pending() == [int(status == 204)] * 3
    assert [one.action for out in sent for one in answers(out)] == ["Acknowledgment"] * 3


@pytest.mark.requirement("EB-076")
def test_sync_reply_does_not_go_with_order(send: Send) -> None:
    error = answer_in(send(asking(extra=SYNC_REPLY + ORDERED)))

    assert [(code, place.rpartition("/")[2]) for code, place in error.errors] == [
        ("Inconsistent", "eb:MessageOrder")
    ]


@pytest.mark.requirement("EB-075", "EB-094")
def test_message_that_asks_for_no_acknowledgment_has_no_answer(send: Send) -> None:
    assert (send(asking(ack_requested="")).status, pending()) == (204, [])
