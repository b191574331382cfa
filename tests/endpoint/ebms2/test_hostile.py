"""What no honest partner sends, in ebMS 2.0: a clear reason, nothing stored, the server lives."""

import gzip

import pytest

from msh.models import InboundMessage, Signal
from partners.models import Partner
from tests.endpoint.conftest import MESSAGE_LIMIT
from tests.endpoint.ebms2 import Send, assert_fault
from tests.peer.ebms2 import SYNC_REPLY, Envelope, Outgoing, message, ping, status_request
from tests.peer.sending import Request, Response

pytestmark = pytest.mark.django_db(transaction=True)

PLAIN = message(payloads=())
TYPE = PLAIN.content_type


def post(web: str, body: bytes, content_type: str = TYPE, **headers: str) -> Response:
    shown = {"Content-Type": content_type, "Authorization": "Bearer ebms2"}
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(web, headers={**shown, **names}, body=body).send()


def envelope(old: str, new: str) -> bytes:
    assert old in PLAIN.envelope
    return PLAIN.envelope.replace(old, new, 1).encode()


def assert_alive(send: Send) -> None:
    """Nothing is stored, and an honest message is taken."""
    assert not InboundMessage.objects.exists()
    assert send(message()).status == 204


@pytest.mark.requirement("EB-006", "EB-014", "EB-016", "EB-025", "EB-066")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<",
        b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>' + PLAIN.envelope.encode(),
        b'<?xml version="1.0" encoding="UTF-16"?>' + PLAIN.envelope.encode("utf-16"),
        b'<?xml version="1.0" encoding="latin-1"?>' + PLAIN.envelope.encode(),
        envelope("<eb:MessageHeader ", f"{'<x>' * 5000}<eb:MessageHeader "),
        envelope("<SOAP:Body>", "</SOAP:Header><SOAP:Header><SOAP:Body>"),
        b"<x/>" * 20_000,
    ],
)
def test_no_soap_is_a_fault(send: Send, web: str, body: bytes) -> None:
    response = post(web, body)

    assert_fault(response, 500, "Client")
    assert response.error
    assert not Signal.objects.exists()
    assert_alive(send)


@pytest.mark.requirement("EB-013", "EB-066")
@pytest.mark.parametrize(
    "content_type",
    [
        'multipart/related; type="text/xml"',
        'multipart/related; type="text/xml"; boundary="other"',
        'text/xml; charset="UTF-7"',
    ],
)
def test_no_package_is_a_fault(send: Send, web: str, content_type: str) -> None:
    assert_fault(post(web, message().body, content_type), 500, "Client")
    assert_alive(send)


@pytest.mark.requirement("EB-004", "EB-153", "EB-158")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content_type": "application/soap+xml"}, 415),
        ({"content_type": 'multipart/related; type="application/soap+xml"; boundary=x'}, 415),
        ({"Content_Encoding": "gzip"}, 415),
    ],
)
def test_what_is_not_taken_has_no_entity(
    send: Send, web: str, headers: dict[str, str], status: int
) -> None:
    response = post(web, gzip.compress(PLAIN.body), **headers)

    assert (response.status, response.body) == (status, b"")
    assert response.error
    assert_alive(send)


@pytest.mark.requirement("EB-014", "EB-153")
def test_too_large_is_413_without_entity(send: Send, web: str) -> None:
    response = post(web, b"<" * (MESSAGE_LIMIT + 1))

    assert (response.status, response.body) == (413, b"")
    assert str(MESSAGE_LIMIT) in response.error
    assert_alive(send)


STATUS = (
    '<eb:StatusRequest eb:version="2.0"><eb:RefToMessageId>m</eb:RefToMessageId></eb:StatusRequest>'
)


@pytest.mark.requirement("EB-024", "EB-025", "EB-062")
@pytest.mark.parametrize(
    ("out", "status"),
    [
        (status_request("m" * 300, extra=SYNC_REPLY), 204),
        (status_request("m", extra=SYNC_REPLY).but(body_blocks=STATUS * 2), 204),
        (status_request("m", extra=SYNC_REPLY + STATUS), 204),
        (ping(message_id="m" * 300, extra=SYNC_REPLY), 204),
        (ping(extra=SYNC_REPLY * 2), 204),
        (ping(extra=SYNC_REPLY, body_blocks="<x>" * 300 + "</x>" * 300), 500),
        (ping(extra=f"{SYNC_REPLY}<x:y xmlns:x='u:x' SOAP:mustUnderstand='1'/>"), 500),
    ],
)
def test_question_that_is_hostile_is_not_answered(send: Send, out: Outgoing, status: int) -> None:
    response = send(out)

    assert response.status == status
    assert b"Pong" not in response.body
    assert b"StatusResponse" not in response.body
    assert response.error
    assert not Signal.objects.exists()
    assert_alive(send)


@pytest.mark.requirement("EB-024", "EB-073")
def test_wrapped_message_with_sync_reply_is_refused_on_its_connection(
    send: Send, ebms2: Partner
) -> None:
    ebms2.agreements.update(sync_reply="signalsOnly")
    whole = message(payloads=(), extra=SYNC_REPLY)
    begin, end = whole.envelope.index("<eb:MessageHeader"), whole.envelope.index("<eb:AckRequested")

    response = send(whole.but(body_blocks=whole.envelope[begin:end]))

    assert response.status == 200
    assert Envelope(response.body).errors[0][0] == "Inconsistent"
    assert not InboundMessage.objects.exists()
