"""Packages in and out: parts, encodings, charsets, what is missing or there twice."""

import base64
import contextlib
import email
import email.policy
import time
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msh.protocol.ebms.errors import NotAMessage, Unusable
from msh.protocol.ebms.message import errors_to_report
from msh.protocol.ebms.vocabulary import FaultCode, Stage
from msh.protocol.message import Payload
from msh.wire import mime, package_of
from msh.wire.ebms2 import envelope
from msh.wire.package import HEADER_LIMIT
from tests.wire.ebms2.samples import (
    EXAMPLE,
    NO_PAYLOAD,
    ORDER,
    ORDER_PART,
    RELATED,
    alone,
    changed,
    composed,
    defects,
    message,
    order,
    parsed,
    refused,
    root_part,
    short,
)
from tests.wire.samples import package
from tests.wire.test_document import HOSTILE


def mailed(*lines: str, content: str = "") -> bytes:
    head = "".join(f"{line}\r\n" for line in ("From: a@b", *lines))
    return f"{head}\r\n{content}".encode()


# Out


@pytest.mark.requirement("EB-001")
def test_a_message_without_payload_is_one_entity() -> None:
    content_type, body = composed(message(manifest=()), [])
    assert content_type == 'text/xml; charset="UTF-8"'
    assert body.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n<SOAP:Envelope')


@pytest.mark.requirement("EB-002", "EB-007", "EB-009", "EB-015")
def test_a_message_with_payloads_is_a_package_that_another_reader_takes_apart() -> None:
    whole = composed(message(), [order(b"\0--msh\r\n")])
    assert whole == composed(message(), [order(b"\0--msh\r\n")])
    content_type, body = whole
    assert content_type.startswith('multipart/related; type="text/xml"; boundary="msh-')
    text = b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body
    package = email.message_from_bytes(text, policy=email.policy.HTTP)
    root, payload = package.iter_parts()
    assert package.get_param("start") == root["Content-ID"]
    assert root["Content-Type"] == 'text/xml; charset="UTF-8"'
    assert payload["Content-ID"] == "<order@sender.example>"
    assert payload.get_payload(decode=True) == b"\0--msh\r\n"
    assert [part["Content-Transfer-Encoding"] for part in (root, payload)] == [None, None]


@pytest.mark.requirement("EB-009")
@settings(max_examples=50)
@given(st.binary() | st.lists(st.sampled_from([b"--", b"msh-", b"\r\n", b"-", b"0"])).map(b"".join))
def test_payloads_full_of_dashes_come_back_as_they_are(content: bytes) -> None:
    boundary = mime.new_boundary()
    head = envelope.compose_head(message(), boundary)
    parts = envelope.compose_parts([order(content)], boundary)
    assert boundary.encode() not in head.replace(b"--" + boundary.encode(), b"")
    received = envelope.parse(envelope.content_type(boundary), head + b"".join(parts))
    assert received.payloads == (order(content),)
    assert received.defects == ()


@pytest.mark.requirement("EB-009")
def test_a_payload_with_the_boundary_is_not_composed() -> None:
    with pytest.raises(ValueError, match="contains the boundary"):
        envelope.compose_parts([order(b"--msh-1")], "msh-1")


@pytest.mark.requirement("EB-010", "EB-011", "EB-186")
@pytest.mark.parametrize(
    "content_type",
    [
        'text/xml; charset=iso-8859-1; x="a;b"',
        "multipart/mixed; boundary=in",
        "application/pkcs7-mime; smime-type=enveloped-data",
    ],
)
def test_a_content_type_is_kept_to_the_byte(content_type: str) -> None:
    payload = order(b"--in\r\n\r\na\r\n--in--\r\n", content_type)
    received = envelope.parse(*composed(message(), [payload]))
    assert received.payloads == (payload,)


def test_a_message_that_names_a_payload_does_not_stand_alone() -> None:
    with pytest.raises(ValueError, match="package is needed"):
        envelope.compose_alone(message())


@pytest.mark.requirement("EB-046")
def test_the_manifest_names_the_payloads_in_their_order() -> None:
    payloads = [order(), Payload(b"", "text/plain", "b%/@x")]
    manifest = envelope.manifest(payloads)
    assert [each.href for each in manifest] == ["cid:order@sender.example", "cid:b%25%2F@x"]
    received = envelope.parse(*composed(message(manifest=manifest), payloads))
    assert received.payloads == tuple(payloads)
    assert received.message.manifest == manifest


@pytest.mark.requirement("EB-014")
def test_an_envelope_over_the_limit_is_not_composed() -> None:
    with pytest.raises(ValueError, match="larger than"):
        composed(message(manifest=(envelope.manifest([order()])[0],) * 9000), [order()])


# In


@pytest.mark.requirement("EB-003")
def test_the_root_is_the_part_that_start_names_else_the_first() -> None:
    body = package(ORDER_PART, root_part())
    for start in ('start="<root@x>"', "start=root@x"):
        content_type = f"multipart/related; type=text/xml; boundary=edge; {start}"
        assert envelope.parse(content_type, body).payloads[0].content == ORDER
    first = envelope.parse("multipart/related; boundary=edge", package(root_part(), ORDER_PART))
    assert first.payloads[0].content == ORDER
    assert refused(body, "multipart/related; boundary=edge").code is FaultCode.CLIENT


@pytest.mark.requirement("EB-003", "EB-013")
def test_a_start_that_names_no_part_is_a_mime_problem() -> None:
    content_type = "multipart/related; boundary=edge; start=other"
    (defect,) = envelope.parse(content_type, package(root_part(), ORDER_PART)).defects
    assert short(defect) == ("EB-013", "MimeProblem", "/SOAP:Envelope/SOAP:Body")
    assert defect.stage is Stage.MIME


@pytest.mark.requirement("EB-013")
def test_a_package_that_breaks_off_is_a_mime_problem_if_the_envelope_is_whole() -> None:
    whole = package(root_part(), ORDER_PART)
    for length in range(0, len(whole) - 6, 7):
        with contextlib.suppress(NotAMessage, Unusable):
            rules = {each.rule for each in envelope.parse(RELATED, whole[:length]).defects}
            assert "EB-013" in rules
    assert refused(package(root_part())[:-10], RELATED).code is FaultCode.CLIENT


@pytest.mark.requirement("EB-013")
def test_two_parts_of_one_content_id_are_a_mime_problem() -> None:
    wrong = ("EB-013", "MimeProblem", "cid:order@sender.example")
    assert defects(EXAMPLE, ORDER_PART, ORDER_PART.replace(b"@", b"%40")) == [wrong]
    assert defects(EXAMPLE, ORDER_PART, ORDER_PART.replace(b"order@sender.example", b"root@x")) == [
        ("EB-013", "MimeProblem", "cid:root@x")
    ]


@pytest.mark.requirement("EB-004", "EB-155")
@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/related; boundary=edge",
        'multipart/related; boundary=edge; type="application/xml"',
        'multipart/related; boundary=edge; type="TEXT/XML"; charset="UTF-8"',
    ],
)
def test_the_type_of_a_package_may_be_missing(content_type: str) -> None:
    body = package(root_part(), ORDER_PART)
    assert envelope.knows(content_type, body)
    assert envelope.parse(content_type, body).defects == ()


@pytest.mark.requirement("EB-004")
@pytest.mark.parametrize(
    ("content_type", "known"),
    [
        ("application/soap+xml", True),
        ("text/plain", False),
        ("multipart/mixed; boundary=edge", False),
        ('multipart/related; boundary=edge; type="application/soap+xml"', True),
        ('multipart/related; boundary=edge; type="application/vnd.eb+xml"', False),
    ],
)
def test_another_type_is_refused(content_type: str, known: bool) -> None:
    """SOAP 1.2 by this dialect, so that no other reads it."""
    body = package(root_part(), ORDER_PART)
    assert envelope.knows(content_type, body) is known
    problem = refused(body, content_type)
    assert (problem.code, problem.status) == (FaultCode.CLIENT, 415)


@pytest.mark.requirement("EB-155")
def test_a_header_document_of_the_draft_is_not_of_this_dialect() -> None:
    draft = b'<?xml version="1.0"?><ebXMLHeader xmlns="u:x"/>'
    assert not envelope.knows("text/xml", draft)
    assert not envelope.knows("multipart/related; boundary=edge", package(b"\r\n" + draft))
    assert envelope.knows("text/xml; charset=utf-8", EXAMPLE.encode())


@pytest.mark.requirement("EB-005")
def test_a_message_without_payload_may_be_a_package_of_one_part() -> None:
    one = envelope.parse(RELATED, package(root_part(NO_PAYLOAD)))
    assert one.message == alone().message
    assert one.content_digest == alone().content_digest


@pytest.mark.requirement("EB-006", "EB-026")
@pytest.mark.parametrize(
    ("charset", "document"),
    [
        ("utf-8", NO_PAYLOAD.encode()),
        ("US-ASCII", NO_PAYLOAD.encode()),
        ("UTF-8", b"\xef\xbb\xbf" + NO_PAYLOAD.encode()),
        ("UTF-8", NO_PAYLOAD.partition("\n")[2].encode()),
        ("UTF-8", NO_PAYLOAD.replace("An order", "\u4e2d").encode()),
    ],
)
def test_utf_8_is_taken_and_the_envelope_kept_as_it_came(charset: str, document: bytes) -> None:
    received = envelope.parse(f'text/xml; charset="{charset}"', document)
    assert received.defects == ()
    assert received.envelope == document


@pytest.mark.requirement("EB-007")
def test_references_and_content_ids_compare_after_decoding() -> None:
    escaped = changed("cid:order@sender", "CID:order%40sender")
    assert parsed(escaped).payloads == (order(),)
    quoted = f"<{quote('order@sender.example', safe='')}>".encode()
    part = ORDER_PART.replace(b"<order@sender.example>", quoted)
    assert parsed(EXAMPLE, part.replace(b"Content-ID", b"CONTENT-Id")).payloads == (order(),)
    assert defects(changed("cid:order@", "cid:Order@")) != []


@pytest.mark.requirement("EB-008", "EB-158")
@pytest.mark.parametrize("encoding", [b"base64", b"gzip"])
def test_a_part_that_cannot_be_decoded_is_a_mime_problem(encoding: bytes) -> None:
    part = b"Content-Transfer-Encoding: " + encoding + b"\r\n" + ORDER_PART
    received = parsed(EXAMPLE, part)
    assert [short(each) for each in received.defects] == [
        ("EB-008", "MimeProblem", "cid:order@sender.example")
    ]
    assert received.payloads == ()
    other = parsed(EXAMPLE, part.replace(b"crates", b"boxes"))
    assert received.content_digest != other.content_digest


@pytest.mark.requirement("EB-010")
@pytest.mark.parametrize(
    ("came", "kept"),
    [
        ("application/xml; a=" + "b" * 255, "application/xml"),
        ('a/b; c=1; note="' + "d;=" * 100 + '"; e="f"', 'a/b; c=1; e="f"'),
        ("a/b; c=" + "d" * 200 + "; e=" + "f" * 210, "a/b; c=" + "d" * 200),
        ("a/" + "b" * 300 + "; c=d", "application/octet-stream"),
        ("a/b" + " " * 300, "a/b"),
        ("a/b;" + "c" * 300, "a/b"),
    ],
)
def test_a_content_type_loses_what_is_too_long(came: str, kept: str) -> None:
    received = parsed(EXAMPLE, ORDER_PART.replace(b"application/xml", came.encode()))
    assert received.payloads == (order(content_type=kept),)
    assert received.defects == ()
    shortened = "the Content-Type of 'order@sender.example' is shortened: "
    assert all(note.startswith(shortened) for note in received.notes)
    assert len(received.notes) == (came.strip() != kept)


@pytest.mark.requirement("EB-014")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_flood_of_markup_is_a_fault_at_once(name: str) -> None:
    started = time.process_time()
    assert refused(HOSTILE[name]).code is FaultCode.CLIENT
    assert time.process_time() - started < 0.5


@pytest.mark.requirement("EB-014")
def test_the_limits_of_the_draft_hold() -> None:
    assert "at most" in str(refused(NO_PAYLOAD + " " * HEADER_LIMIT))
    deep = "<a>" * 120 + "</a>" * 120
    assert "levels" in str(refused(NO_PAYLOAD.replace("<SOAP:Body>", f"<SOAP:Body>{deep}")))
    many = package(root_part(), *[b"\r\n"] * mime.PART_LIMIT)
    assert "more than 1000 parts" in envelope.parse(RELATED, many).defects[0].error.description


# Read or composed here, decided by a flow: EB-161.
@pytest.mark.requirement("EB-005")
def test_a_message_comes_by_mail_in_one_entity_or_several() -> None:
    text = base64.encodebytes(NO_PAYLOAD.encode()).decode()
    encoding = "Content-Transfer-Encoding: base64"
    mail = mailed("Content-Type: text/xml;\r\n charset=utf-8", encoding, content=text)
    assert envelope.parse(*package_of(mail)).message == alone().message
    body = package(root_part(), ORDER_PART).decode()
    mail = mailed("Received: from x\r\n\tby y", f"Content-Type: {RELATED}", content=body)
    assert envelope.parse(*package_of(mail)) == parsed()


# Whatever comes


@pytest.mark.requirement("EB-013", "EB-065")
def test_a_package_that_breaks_off_is_reported_before_its_header() -> None:
    body = package(root_part(changed("cpa-4711", "")), ORDER_PART)
    with pytest.raises(Unusable) as caught:
        envelope.parse(RELATED, body[:-6])
    assert [each.rule for each in caught.value.defects] == ["EB-013", "EB-032"]
    assert [each.code for each in errors_to_report(caught.value.defects)] == ["MimeProblem"]


WHOLE = package(root_part(), ORDER_PART)
_AT = st.integers(0, len(WHOLE) - 1)


@pytest.mark.requirement("EB-014")
@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(_AT, _AT, st.sampled_from(sorted({WHOLE[at : at + 9] for at in range(1800)})))
        | st.tuples(_AT, _AT, st.binary(max_size=3)),
        min_size=1,
        max_size=3,
    )
)
def test_nothing_but_a_refusal_comes_of_bytes_that_are_mixed_up(
    changes: list[tuple[int, int, bytes]],
) -> None:
    body = WHOLE
    for start, length, new in changes:
        body = body[:start] + new + body[start + length % 20 :]
    with contextlib.suppress(NotAMessage, Unusable):
        received = envelope.parse(RELATED, body)
        errors_to_report(received.defects)
        for payload in received.payloads:
            assert payload.content_id.isprintable()
