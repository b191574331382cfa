"""StatusRequest and Ping: what is answered, and what an answer says."""

import pytest

from msh.protocol.ebms import signals
from msh.protocol.ebms.message import StatusResponse
from msh.protocol.ebms.services import about_and_said, status_of
from msh.protocol.ebms.vocabulary import Kind, MessageStatus
from tests.wire.ebms2.samples import MOMENT, signal


@pytest.mark.requirement("EB-143", "EB-144")
@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("accepted", MessageStatus.RECEIVED),
        ("held", MessageStatus.RECEIVED),
        ("delivered", MessageStatus.PROCESSED),
        ("rejected", MessageStatus.PROCESSED),
        (None, MessageStatus.NOT_RECOGNIZED),
    ],
)
def test_status_of_a_message(state: str | None, status: MessageStatus) -> None:
    assert status_of(state, refuses=False) is status
    assert status_of(state, refuses=True) is MessageStatus.UNAUTHORIZED


@pytest.mark.requirement("EB-144")
def test_only_a_known_message_has_a_time_of_receipt() -> None:
    known = {one for one in MessageStatus if one.is_known}
    assert known == {MessageStatus.RECEIVED, MessageStatus.PROCESSED, MessageStatus.FORWARDED}


def test_what_an_answer_says() -> None:
    received = StatusResponse("m1", MessageStatus.RECEIVED, MOMENT)
    said = about_and_said(signals.status_response(signal("ask"), received))
    assert said == ("m1", "Received, received 2026-11-22T12:00:00Z")
    unknown = StatusResponse("m1", MessageStatus.NOT_RECOGNIZED)
    said = about_and_said(signals.status_response(signal("ask"), unknown))
    assert said == ("m1", "NotRecognized")
    pong = signals.pong(signal("ping-1"))
    assert about_and_said(pong) == ("ping-1", "")


@pytest.mark.requirement("EB-140", "EB-143")
def test_two_kinds_ask_and_two_answer() -> None:
    assert {kind for kind in Kind if kind.asks} == {Kind.PING, Kind.STATUS_REQUEST}
    assert {kind for kind in Kind if kind.answers} == {Kind.ACKNOWLEDGMENT, Kind.MESSAGE_ERROR}
