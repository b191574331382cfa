"""What is refused by a MessageError."""

from typing import Any

import pytest

from msh.flows.sending.submit import submit
from msh.protocol.message import Payload
from partners.models import Agreement, Partner
from tests.endpoint.ebms2 import Send, answers, assert_refused
from tests.peer.ebms2 import (
    SYNC_REPLY,
    ack_requested,
    message,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.requirement("EB-053", "EB-055", "EB-063", "EB-105")
def test_party_that_is_not_ours_is_refused_at_its_place(send: Send) -> None:
    out = message(to_party="999999999")

    assert_refused(send, out, ("ValueNotRecognized", "eb:PartyId"))

    (error,) = answers(out)
    assert error.text("eb:From/eb:PartyId") == "111111111"
    assert error.text("eb:CPAId") == "cpa-1"
    assert error.ref_to_message_id == out.message_id


@pytest.mark.requirement("EB-031")
def test_role_of_the_agreement_is_asked_for(send: Send, ebms2: Partner) -> None:
    ebms2.agreements.update(their_role="Buyer", our_role="Seller")

    assert_refused(send, message(to_role="Seller"), ("Inconsistent", "eb:Role"))
    roles = {"from_role": "Buyer", "to_role": "Bank"}
    out = message(**roles)
    send(out)
    assert answers(out)[0].errors[0][0] == "ValueNotRecognized"
    assert send(message(from_role="Buyer", to_role="Seller")).error == ""


ASKS_SIGNED = ack_requested().replace('eb:signed="false"', 'eb:signed="true"')


@pytest.mark.requirement("EB-043")
@pytest.mark.parametrize(
    ("terms", "fields", "place"),
    [
        ({"ack": "always"}, {"ack_requested": ""}, "eb:AckRequested"),
        ({"ack": "never"}, {}, "eb:AckRequested"),
        ({"eliminates": "always"}, {"eliminates": False}, "eb:DuplicateElimination"),
        ({"eliminates": "never"}, {}, "eb:DuplicateElimination"),
        ({}, {"extra": SYNC_REPLY}, "eb:SyncReply"),
        ({}, {"ack_requested": ASKS_SIGNED}, "eb:AckRequested"),
    ],
)
def test_presence_is_as_agreed(
    send: Send, ebms2: Partner, terms: dict[str, str], fields: dict[str, Any], place: str
) -> None:
    ebms2.agreements.update(**terms)

    assert_refused(send, message(**fields), ("Inconsistent", place))

    ebms2.agreements.update(lenient=["EB-043"])
    assert send(message(**fields)).error == ""


@pytest.mark.requirement("EB-056")
def test_several_errors_of_one_check_are_one_answer(send: Send) -> None:
    out = message(timestamp="yesterday", conversation_id="", time_to_live="never")

    response = send(out)

    assert response.status == 204
    (error,) = answers(out)
    places = [place.rpartition("/")[2] for _, place in error.errors]
    assert places == ["eb:ConversationId", "eb:Timestamp"]


@pytest.mark.requirement("EB-047")
def test_manifest_names_a_part_that_is_not_there(send: Send) -> None:
    out = message(references=("cid:order@peer", "cid:gone@peer"))

    assert_refused(send, out, ("MimeProblem", "cid:gone@peer"))


# The first of two neighbouring checks decides (EB-065).
ORDERED = (
    '<eb:MessageOrder eb:version="2.0" SOAP:mustUnderstand="1">'
    "<eb:SequenceNumber>1</eb:SequenceNumber></eb:MessageOrder>"
)
PAST = "2020-01-01T00:00:00Z"
GONE = ("cid:order@peer", "cid:gone@peer")


@pytest.mark.requirement("EB-065")
@pytest.mark.parametrize(
    ("fields", "code", "place"),
    [
        ({"party_type": "", "from_role": "X"}, "Inconsistent", "eb:PartyId[1]"),
        ({"from_party": "3", "from_role": "X"}, "ValueNotRecognized", "eb:PartyId"),
        ({"from_role": "X", "time_to_live": PAST}, "ValueNotRecognized", "eb:Role"),
        ({"time_to_live": PAST, "references": GONE}, "TimeToLiveExpired", "eb:TimeToLive"),
        ({"references": GONE, "extra": ORDERED}, "MimeProblem", "cid:gone@peer"),
        ({"extra": ORDERED}, "NotSupported", "eb:MessageOrder"),
    ],
)
def test_first_check_that_fails_decides(
    send: Send, ebms2: Partner, fields: dict[str, Any], code: str, place: str
) -> None:
    ebms2.agreements.update(their_role="Buyer")
    out = message(**{"from_role": "Buyer", **fields})

    assert send(out).status == 204

    error = answers(out)[0].errors[0]
    assert (error[0], error[1].rpartition("/")[2]) == (code, place)


@pytest.mark.requirement("EB-039")
def test_reference_to_an_unknown_message_is_taken_unless_the_agreement_minds(
    send: Send, ebms2: Partner
) -> None:
    known = message()
    for out in (known, known.but(message_id="m2@peer", ref_to_message_id="gone@peer")):
        assert send(out).error == ""
    Agreement.objects.filter(partner=ebms2).update(check_ref_to=True)

    ours = submit(Agreement.objects.get(), "urn:example:orders", "Quote", [Payload(b"<a/>")])
    for one in (known, ours):
        assert send(message(ref_to_message_id=one.message_id)).error == ""
    refused = message(ref_to_message_id="gone@peer")
    assert "RefToMessageId" in send(refused).error
    (answer,) = answers(refused)
    assert answer.errors[0][0] == "ValueNotRecognized"
    assert answer.errors[0][1].endswith("eb:RefToMessageId")
