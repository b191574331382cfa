"""Payload parts against the Manifest, and the digest of what they are."""

import pytest

from msh.protocol.ebms.vocabulary import Stage
from msh.wire.ebms2 import envelope
from msh.wire.ebms2.parts import is_encrypted
from tests.wire.ebms2.samples import (
    EXAMPLE,
    MANIFEST,
    NO_PAYLOAD,
    ORDER,
    ORDER_PART,
    RELATED,
    changed,
    defects,
    order,
    parsed,
    root_part,
    short,
)
from tests.wire.samples import package

SECOND = changed(
    "</eb:Manifest>",
    '<eb:Reference xlink:href="cid:b%25%40x"/></eb:Manifest>',
)


# The Manifest


@pytest.mark.requirement("EB-047")
def test_a_reference_without_part_is_a_mime_problem_at_its_href() -> None:
    found = parsed(SECOND).defects
    assert [short(each) for each in found] == [("EB-047", "MimeProblem", "cid:b%25%40x")]
    assert found[0].stage is Stage.MANIFEST
    assert not found[0].waivable


@pytest.mark.requirement("EB-047")
@pytest.mark.parametrize("href", ["cid:", "CID:", "cid:part-2", "cid:envelope%40sender.example"])
def test_a_reference_names_a_part_by_its_own_content_id(href: str) -> None:
    """Not the envelope, and no part without Content-ID, whatever we call it."""
    manifest = changed("</eb:Manifest>", f'<eb:Reference xlink:href="{href}"/></eb:Manifest>')
    found = parsed(manifest, ORDER_PART, b"\r\nnameless").defects
    assert ("EB-047", "MimeProblem", href) in [short(each) for each in found]


@pytest.mark.requirement("EB-048")
def test_a_part_without_reference_is_last_and_a_mime_problem_that_can_be_waived() -> None:
    received = parsed(EXAMPLE, b"\r\nnameless", b"Content-ID: <n@x>\r\n\r\nnamed", ORDER_PART)
    assert [each.content for each in received.payloads] == [ORDER, b"nameless", b"named"]
    assert [each.content_id for each in received.payloads[1:]] == ["part-1", "n@x"]
    assert [(short(each), each.waivable) for each in received.defects] == [
        (("EB-048", "MimeProblem", "cid:part-1"), True),
        (("EB-048", "MimeProblem", "cid:n@x"), True),
    ]
    assert defects(NO_PAYLOAD) == [("EB-048", "MimeProblem", "cid:order@sender.example")]


@pytest.mark.requirement("EB-048")
@pytest.mark.parametrize("name", ["%00", "%0a", "a%C2%80"])
def test_a_part_with_a_name_that_cannot_be_stored_is_nameless(name: str) -> None:
    part = f"Content-ID: <{name}>\r\n\r\n".encode()
    assert parsed(EXAMPLE, ORDER_PART, part).payloads[1].content_id == "part-2"


@pytest.mark.requirement("EB-047")
@pytest.mark.parametrize("href", ["cid:{}", "cid:&lt;{}&gt;", "CID:%3C{}%3E"])
def test_a_reference_may_be_long_and_have_brackets(href: str) -> None:
    name = "a" * 1100 + "@x"
    manifest = changed("cid:order@sender.example", href.format(name))
    received = parsed(manifest, ORDER_PART.replace(b"order@sender.example", name.encode()))
    assert received.defects == ()
    assert [each.content_id for each in received.payloads] == [name]
    assert len(received.notes) == (href[4:] != "{}")


@pytest.mark.requirement("EB-049")
@pytest.mark.parametrize("href", ["mid:1@x", "http://192.0.2.1/" + "a" * 3000, "x:\x85", "order@x"])
def test_a_reference_to_something_else_is_not_fetched(href: str) -> None:
    received = parsed(SECOND.replace("cid:b%25%40x", href))
    assert received.defects == ()
    kept = href.replace("\x85", " ").strip()
    assert received.message.manifest[1].href == kept
    assert received.payloads == (order(),)
    assert [note.endswith(" is not fetched") for note in received.notes] == [True]


@pytest.mark.requirement("EB-052")
def test_a_part_that_is_named_twice_is_one_payload() -> None:
    received = parsed(SECOND.replace("b%25%40x", "order@sender.example"))
    assert received.payloads == (order(),)
    assert received.defects == ()
    assert received.notes == ("the Manifest names 'order@sender.example' twice",)


@pytest.mark.requirement("EB-050", "EB-052")
@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        ('<eb:Manifest eb:version="2.0"/>', [("EB-052", "Inconsistent", "")]),
        (MANIFEST.replace('xlink:type="simple"', 'eb:id="1" xlink:role="urn:x"'), []),
        (
            MANIFEST.replace(
                "<eb:Description",
                '<eb:Schema eb:location="" eb:version=""/><x:Payload xmlns:x="u:x"/>'
                '<eb:Description xml:lang="no"/><eb:Description',
            ),
            [],
        ),
        (
            MANIFEST.replace('xlink:href="cid:order@sender.example"', ""),
            [("EB-047", "ValueNotRecognized", "/eb:Reference[1]")],
        ),
        (
            MANIFEST.replace("cid:order", "cid:a&#9;b%00"),
            [("EB-047", "ValueNotRecognized", "/eb:Reference[1]")],
        ),
    ],
)
def test_a_manifest_is_read_leniently(manifest: str, found: list[tuple[str, str, str]]) -> None:
    at = "/SOAP:Envelope/SOAP:Body/eb:Manifest"
    expected = [(rule, code, at + path) for rule, code, path in found]
    assert [
        each for each in defects(changed(MANIFEST, manifest)) if each[0] != "EB-048"
    ] == expected


# What is the same in every copy


# Read or composed here, decided by a flow: EB-101.
@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("2026-11-22T12:00:00Z", "2026-11-22T12:00:01Z", True),
        (' eb:signed="false"', ' eb:signed="true"', True),
        ("<eb:CPAId>cpa-4711", "<eb:CPAId  >\n cpa-4711".replace("\n ", ""), True),
        ("conv-987654321", "conv-1", False),
        ("2026-11-23T12:00:00Z", "2026-11-24T12:00:00Z", True),
        ("<eb:DuplicateElimination/>", "", True),
        ("100 crates", "99 crates", True),
        ("NewPurchaseOrder", "CancelPurchaseOrder", False),
        ("QuoteToCollect", "QuoteToPay", False),
        ("cpa-4711", "cpa-4712", False),
    ],
)
def test_the_digest_is_over_what_identifies_the_message(old: str, new: str, same: bool) -> None:
    copy = parsed(changed(old, new))
    assert (copy.content_digest == parsed().content_digest) is same


# Read or composed here, decided by a flow: EB-101.
def test_the_digest_is_over_the_payloads() -> None:
    digest = parsed().content_digest
    typed = ORDER_PART.replace(b"application/xml", b"application/xml; charset=utf-8")
    assert digest != parsed(EXAMPLE, ORDER_PART + b" ").content_digest
    assert digest == parsed(EXAMPLE, typed).content_digest
    other = envelope.parse(
        RELATED.replace("edge", "other"), package(root_part(), ORDER_PART, boundary="other")
    )
    assert digest == other.content_digest


XENC = b'<EncryptedData xmlns="http://www.w3.org/2001/04/xmlenc#"/>'


@pytest.mark.requirement("EB-010", "EB-185")
@pytest.mark.parametrize("before", [b" " * 2000, b"<!-- a -->\n" * 200, b"<?a b?>" * 200], ids=repr)
@pytest.mark.parametrize(
    ("root", "expected"), [(XENC, True), (b"<order>" + XENC, False), (b"no XML", False)], ids=repr
)
def test_what_stands_before_the_root_is_read_once(
    before: bytes, root: bytes, expected: bool
) -> None:
    """Without a bound, each blank would double the time that a payload takes."""
    assert is_encrypted("text/plain", before + root) is expected


@pytest.mark.requirement("EB-048")
def test_a_reference_without_its_scheme_is_named() -> None:
    found = parsed(changed('"cid:order@sender.example"', '"order@sender.example"')).defects
    (unnamed,) = [each for each in found if each.rule == "EB-048"]
    sentence = "its Reference 'order@sender.example' does not begin with cid:"
    assert sentence in unnamed.error.description


@pytest.mark.requirement("EB-010")
def test_a_file_name_that_is_too_long_is_shortened_and_noted() -> None:
    head = b'Content-Disposition: attachment; filename="' + b"x" * 1000 + b'.xml"\r\n'
    received = parsed(EXAMPLE, head + ORDER_PART)
    assert len(received.payloads[0].label) < 1000
    assert any("file name of 'order@sender.example' is shortened" in n for n in received.notes)


@pytest.mark.requirement("EB-185")
@pytest.mark.parametrize("coding", ["utf-8", "utf-16"])
def test_an_encrypted_payload_is_a_security_failure(coding: str) -> None:
    text = '<x:EncryptedData xmlns:x="http://www.w3.org/2001/04/xmlenc#"/>'
    part = ORDER_PART.replace(ORDER, text.encode(coding))
    assert ("EB-185", "SecurityFailure") in [
        (each.rule, each.error.code) for each in parsed(EXAMPLE, part).defects
    ]
    assert is_encrypted("application/xenc+xml", b"")


@pytest.mark.requirement("EB-027")
def test_what_is_read_leniently_is_noted() -> None:
    assert noted(changed(' eb:signed="false"', ""), "signed is missing: taken for false")
    assert noted(
        EXAMPLE.replace("12:00:00Z</eb:Timestamp>", "24:00:00Z</eb:Timestamp>"), "Timestamp"
    )
    report = f'<eb:Error eb:errorCode="Unknown" eb:severity="Error" eb:location="{"e" * 2000}"/>'
    errors = f'<eb:ErrorList eb:version="2.0" eb:highestSeverity="Error">{report}</eb:ErrorList>'
    assert noted(changed("</SOAP:Header>", f"{errors}</SOAP:Header>"), "location is shortened")


def noted(document: str, words: str) -> bool:
    return any(words in note for note in parsed(document).notes)


@pytest.mark.requirement("EB-004")
def test_a_type_of_the_package_with_parameters_is_noted() -> None:
    related = RELATED.replace('"text/xml"', '"text/xml; charset=utf-8"')
    received = envelope.parse(related, package(root_part(), ORDER_PART))
    assert "the package's type is 'text/xml; charset=utf-8'" in received.notes
