"""The registry of dialects."""

from base64 import b64encode

import pytest

from msh.protocol.ebms.vocabulary import FaultCode
from msh.protocol.message import Payload
from msh.wire import compose_parts, content_type
from msh.wire.dialect import EBMS2, TRP, dialect_by_network, dialect_named, dialect_of
from msh.wire.ebms2.soap import read_fault

ENVELOPE = b'<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/"/>'
DRAFT = b'<?xml version="1.0"?><ebXMLHeader/>'
HOLDS_DRAFT = b"--x\r\n\r\n" + ENVELOPE + b"\r\n--x\r\n\r\n" + DRAFT + b"\r\n--x--"
_IN_BASE64 = b"Content-Transfer-Encoding: base64\r\n\r\n" + b64encode(ENVELOPE)
ROOT_SECOND = b"\r\n--x\r\nContent-ID: <b@x>\r\n" + _IN_BASE64 + b"\r\n--x--"
RELATED = "multipart/related; boundary=x"


@pytest.mark.parametrize("came", ["application/json", "", "application/vnd.eb+xml"])
def test_what_no_dialect_knows_is_left_to_the_draft(came: str) -> None:
    """It says what is wrong, without an entity."""
    dialect = dialect_of(came, b"")

    assert dialect is TRP
    assert dialect.refusal(415, "no message") is None


@pytest.mark.requirement("EB-155")
@pytest.mark.parametrize(
    ("came", "body", "dialect"),
    [
        ("text/xml; charset=utf-8", ENVELOPE, EBMS2),
        ("application/xml", b"", EBMS2),
        ('multipart/related; type="text/xml"; boundary=x', b"", EBMS2),
        (RELATED, b"--x\r\n\r\n" + ENVELOPE, EBMS2),
        (RELATED, b"--x\r\n\r\n" + DRAFT, TRP),
        (RELATED, b"", TRP),
        ("application/soap+xml; charset=utf-8", ENVELOPE, EBMS2),
        ('multipart/related; type="application/soap+xml"; boundary=x', b"", EBMS2),
        ('multipart/related; type="application/vnd.eb+xml"; boundary=x', ENVELOPE, TRP),
        ('multipart/related; type="application/xop+xml"; boundary=x', b"", EBMS2),
        ('multipart/related; type="image/png"; boundary=x', b"--x\r\n\r\n" + DRAFT, TRP),
        ('multipart/related; type="text/xml; charset=utf-8"; boundary=x', b"", EBMS2),
        ('multipart/related; type="text/xml"; boundary=x', HOLDS_DRAFT, EBMS2),
        (RELATED, HOLDS_DRAFT, EBMS2),
        (f'{RELATED}; start="b@x"', b"--x\r\n\r\n1" + ROOT_SECOND, EBMS2),
        ("text/xml", DRAFT, TRP),
    ],
)
def test_content_type_and_root_choose(came: str, body: bytes, dialect: object) -> None:
    assert dialect_of(came, body) is dialect


@pytest.mark.requirement("EB-190")
@pytest.mark.parametrize(
    ("came", "dialect"),
    [
        (RELATED, EBMS2),
        ("text/xml", EBMS2),
        ('multipart/related; type="application/vnd.eb+xml"; boundary=x', None),
        ("application/vnd.eb+xml", None),
        ("multipart/mixed; boundary=x", None),
        ("", None),
    ],
)
def test_content_type_says_whether_a_network_may_show_the_partner(
    came: str, dialect: object
) -> None:
    assert dialect_by_network(came) is dialect


def test_the_draft_composes_as_before() -> None:
    dialect, payloads = dialect_named("trp"), [Payload(b"<a/>", content_id="a@b")]

    assert dialect.content_type("msh-1", False) == content_type("msh-1")
    assert dialect.compose_head is None
    assert dialect.compose_parts(payloads, "msh-1") == compose_parts(payloads, "msh-1")
    assert (dialect.headers, dialect.by_network) == ((), False)


@pytest.mark.requirement("EB-066", "EB-150")
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, FaultCode.CLIENT),
        (401, FaultCode.SERVER),
        (403, FaultCode.SERVER),
        (500, FaultCode.SERVER),
    ],
)
def test_refusal_in_ebms_is_a_fault(status: int, code: FaultCode) -> None:
    entity = dialect_named("ebms2").refusal(status, "no <agreement>")

    assert entity is not None
    fault = read_fault(entity.body)
    assert fault is not None
    assert (fault.code, fault.text) == (code, "no <agreement>")
    assert entity.content_type == 'text/xml; charset="UTF-8"'
    assert entity.headers == (("SOAPAction", '"ebXML"'),)


@pytest.mark.parametrize("status", [404, 405, 411, 413, 415, 429, 503])
def test_other_refusals_have_no_entity(status: int) -> None:
    assert EBMS2.refusal(status, "no") is None


def test_a_dialect_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        dialect_named("ebms3")
