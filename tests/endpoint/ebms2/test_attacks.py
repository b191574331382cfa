"""What an attacker sends in ebMS 2.0 that is well-formed enough to be looked into: shapes that two
readers take differently, and floods. A clear reason, nothing stored, the server lives."""

import pytest

from msh.models import InboundMessage, Signal
from tests.endpoint.ebms2 import Send, answers, assert_fault
from tests.peer.ebms2 import SYNC_REPLY, Outgoing, message, message_order, ping
from tests.peer.sending import Request, Response, exchange

pytestmark = pytest.mark.django_db(transaction=True)

ENVELOPE = message(payloads=()).envelope
HEADER = ENVELOPE[
    ENVELOPE.index("<eb:MessageHeader") : ENVELOPE.index("</eb:MessageHeader>")
    + len("</eb:MessageHeader>")
]
DS = 'xmlns:ds="http://www.w3.org/2000/09/xmldsig#"'
ACTOR_NEXT = "http://schemas.xmlsoap.org/soap/actor/next"
ROOT = b"Content-ID: <envelope@peer>\r\nContent-Type: text/xml"
NAMED = b"Content-ID: <order@peer>"


def post(web: str, body: bytes, content_type: str = "text/xml") -> Response:
    shown = {"Content-Type": content_type, "Authorization": "Bearer ebms2"}
    return Request(web, headers=shown, body=body).send()


def replaced(old: str, new: str) -> bytes:
    assert old in ENVELOPE
    return ENVELOPE.replace(old, new, 1).encode()


def package(*parts: tuple[bytes, bytes]) -> bytes:
    lines = (b"--peer-boundary\r\n" + head + b"\r\n\r\n" + body + b"\r\n" for head, body in parts)
    return b"".join(lines) + b"--peer-boundary--\r\n"


def assert_alive(send: Send) -> None:
    assert not InboundMessage.objects.exists()
    assert send(message()).status == 204


@pytest.mark.requirement("EB-016", "EB-020", "EB-024", "EB-025", "EB-066")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (ENVELOPE.encode() * 2, "Extra content at the end"),
        (ENVELOPE.encode() + b"\0" * 100, "Extra content at the end"),
        (replaced("<SOAP:Body>", "<SOAP:Body/><SOAP:Body>"), "one Header and one Body"),
        (replaced("<SOAP:Header>", "<SOAP:Header/><SOAP:Header>"), "one Header and one Body"),
        (
            replaced(HEADER, f"<ds:Signature {DS}><ds:Object>{HEADER}</ds:Object></ds:Signature>"),
            "without an ebXML MessageHeader",
        ),
        (replaced("cpa-1", "&cpa;"), "Entity 'cpa' not defined"),
        (ENVELOPE.encode().replace(b"cpa-1", b"cpa\xc0\xad1"), "not UTF-8"),
        (replaced('eb:version="2.0"', 'eb:version="2.0" eb:version="2.0"'), "redefined"),
        (replaced("<SOAP:Header>", "<SOAP:Header>" + "<a/>" * 20_001), "more than 20000 tags"),
        (
            replaced(
                "<eb:AckRequested",
                f"<x:y xmlns:x='u:x' SOAP:mustUnderstand=' 1 ' SOAP:actor=' {ACTOR_NEXT} '/>"
                "<eb:AckRequested",
            ),
            "is not understood here",
        ),
    ],
)
def test_envelope_of_two_meanings_is_a_fault(
    send: Send, web: str, body: bytes, reason: str
) -> None:
    response = post(web, body)

    assert response.status == 500
    assert reason in response.error
    assert_alive(send)


@pytest.mark.requirement("EB-013", "EB-066")
@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (
            [(ROOT + b"\r\nContent-Type: application/octet-stream", ENVELOPE.encode())],
            "content-type twice",
        ),
        ([(b"Content-ID: <x@y>\r\n" + ROOT, ENVELOPE.encode())], "content-id twice"),
        (
            [
                (
                    ROOT.replace(b"text/xml", b'multipart/related; type="text/xml"; boundary=in'),
                    b"--in\r\n" + ROOT + b"\r\n\r\n" + ENVELOPE.encode() + b"\r\n--in--\r\n",
                )
            ],
            "is not XML",
        ),
    ],
)
def test_root_of_two_meanings_is_a_fault(
    send: Send, web: str, parts: list[tuple[bytes, bytes]], reason: str
) -> None:
    response = post(web, package(*parts), message().content_type)

    assert_fault(response, 500, "Client")
    assert reason in response.error
    assert_alive(send)


@pytest.mark.requirement("EB-008", "EB-013", "EB-014")
@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (NAMED + b"\r\nContent-ID: <x@peer>", "content-id twice"),
        (
            NAMED + b"\r\nContent-Transfer-Encoding: base64\r\nContent-Transfer-Encoding: 7bit",
            "content-transfer-encoding twice",
        ),
        (NAMED + b"\r\nContent-Type: text/\0xml", "is not a MIME header"),
        (NAMED + b"\r\nX: " + b"a" * 20_000, "no end of headers within 16384 bytes"),
        (NAMED + b"\r\nContent-Transfer-Encoding: x-uuencode", "unknown Content-Transfer-Encoding"),
    ],
)
def test_part_of_two_meanings_is_a_mime_problem(
    send: Send, web: str, head: bytes, reason: str
) -> None:
    out = message()
    response = post(
        web, package((ROOT, out.envelope.encode()), (head, b"<order/>")), out.content_type
    )

    assert response.status == 204
    assert reason in response.error
    (error,) = answers(out)
    assert [code for code, _ in error.errors] == ["MimeProblem"]
    assert_alive(send)


@pytest.mark.requirement("EB-024", "EB-037", "EB-047", "EB-121")
@pytest.mark.parametrize(
    ("out", "code"),
    [
        (message(references=("cid:envelope@peer", "cid:order@peer")), "MimeProblem"),
        (message(references=("cid:order@peer", "cid:")), "MimeProblem"),
        (message(payloads=(), references=("cid:order%00peer",)), "ValueNotRecognized"),
        (message(references=("cid:order%2540peer",)), "MimeProblem"),
        (message(payloads=(), body_blocks=ENVELOPE), "Inconsistent"),
        (message(payloads=(), extra=f"<w:w xmlns:w='u:w'>{HEADER}</w:w>"), "Inconsistent"),
        (message(payloads=(), extra=f"<ds:Signature {DS}/>" * 2), "Inconsistent"),
        (message(payloads=(), body_blocks=f"<ds:Signature {DS}/>"), "Inconsistent"),
        (message(extra='<eb:Manifest eb:version="2.0"/>'), "Inconsistent"),
        (message(timestamp="\u0662026-01-01T00:00:00Z"), "ValueNotRecognized"),
        (message(time_to_live="9999-12-31T23:59:59-24:00"), "ValueNotRecognized"),
        (message(extra=message_order(10**4000)), "ValueNotRecognized"),
        (message(conversation_id="a\x85b"), "ValueNotRecognized"),
        (message(service="urn:" + "a" * 20_000), "ValueNotRecognized"),
    ],
)
def test_message_of_two_meanings_is_refused(send: Send, out: Outgoing, code: str) -> None:
    response = send(out)

    assert (response.status, response.body) == (204, b"")
    assert response.error
    (error,) = answers(out)
    assert {found for found, _ in error.errors} == {code}
    assert_alive(send)


@pytest.mark.requirement("EB-029", "EB-140")
def test_value_with_a_comment_is_read_whole(send: Send, web: str) -> None:
    """One that stopped at the comment would see the party 111."""
    response = post(web, replaced("111111111", "111<!-- x -->111111"))
    assert (response.status, response.error) == (204, "")
    other = ping(extra=SYNC_REPLY).envelope.replace("111111111", "111111111<!-- x -->2")
    assert b"Pong" not in post(web, other.encode()).body
    assert InboundMessage.objects.count() == 1


@pytest.mark.requirement("EB-155")
@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"Content-Type: text/xml\r\nContent-Type: application/octet-stream\r\n", 400),
        (b"Content-Type: text/xml\r\nTransfer-Encoding: chunked\r\n", 400),
        (b"Content-Type: text/xml\r\nContent-Length: 5\r\n", 400),
        (b"Content-Type : text/xml\r\n", 400),
        (b"Content-Type:\r\n text/xml\r\n", 400),
        (b"Content-Type: text/xml\r\nAuthorization: Bearer other\r\n", 401),
        (b"Content-Type: text/xml\r\nX: " + b"a" * 100_000 + b"\r\n", 431),
    ],
)
def test_headers_of_two_meanings_are_refused(
    send: Send, web: str, lines: bytes, status: int
) -> None:
    body = ENVELOPE.encode()
    head = b"POST /ebxml/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + lines
    known = b"Authorization: Bearer ebms2\r\nContent-Length: %d\r\n\r\n" % len(body)

    answer = exchange(web, head + known + body)

    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert not Signal.objects.exists()
    assert_alive(send)
