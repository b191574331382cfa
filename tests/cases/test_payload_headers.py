"""Headers of payload parts: long ones, folded ones, with file names of any kind."""

import pytest

from msh.models import History, InboundPayload
from tests.cases import package, payload, root_of
from tests.cases.conftest import Post
from tests.endpoint.ebms2 import answers
from tests.peer.ebms2 import message

pytestmark = pytest.mark.django_db(transaction=True)

RELATED = 'multipart/related; type="text/xml"; boundary="peer-boundary"'
SCANNED = "Tilbakemelding-paa-henvisning-og-vedlegg-" * 7 + ".pdf"


def sent(post: Post, *headers: str | bytes) -> InboundPayload:
    """The payload whose part has these header lines, as it was stored and acknowledged."""
    out = message()
    lines = b"".join((one.encode() if isinstance(one, str) else one) + b"\r\n" for one in headers)
    part = payload(b"%PDF\r\n").replace(b"Content-Type: text/xml\r\n", lines)

    assert post(package(root_of(out), part), RELATED).status == 204

    assert [one.action for one in answers(out)] == ["Acknowledgment"]
    stored = InboundPayload.objects.get()
    assert bytes(stored.content) == b"%PDF\r\n"
    return stored


@pytest.mark.requirement("EB-010", "EB-051")
@pytest.mark.parametrize("fold", ["name=\r\n\t", "name=\r\r\n\t", "name =\r\n ", "\r\n\tname="])
def test_long_file_name_in_the_content_type(post: Post, fold: str) -> None:
    """The type reaches the consumer without the parameter that is too long, the name as label."""
    stored = sent(post, f'Content-Type: application/pdf; {fold}"{SCANNED}"')

    assert stored.content_type.rstrip("; ") == "application/pdf"
    assert stored.label == f"{SCANNED[:251]}.pdf"
    notes = History.objects.values_list("detail", flat=True)
    assert any("is shortened" in detail for detail in notes)


@pytest.mark.requirement("EB-010")
@pytest.mark.parametrize("name", ["a=b.pdf", "a;b.pdf", "a, b (1).pdf"])
def test_file_name_with_special_characters_in_the_content_type(post: Post, name: str) -> None:
    stored = sent(post, f'Content-Type: application/pdf; name="{name}"; x=y')

    assert stored.content_type == f'application/pdf; name="{name}"; x=y'
    assert stored.label == name


@pytest.mark.requirement("EB-051")
@pytest.mark.parametrize(
    ("disposition", "label"),
    [
        ('attachment; filename="\xe5rsmelding \u2705.pdf"', "\xe5rsmelding \u2705.pdf"),
        (b'attachment; filename="\xe5rsmelding.pdf"', "\xe5rsmelding.pdf"),
        ("attachment; filename=\"a.pdf\"; filename*=UTF-8''%C3%A5.pdf", "\xe5.pdf"),
        ("attachment; filename*0*=UTF-8''%C3; filename*1*=%A5; filename*2=.pdf", "\xe5.pdf"),
        ('inline; filename="=?UTF-8?B?w6UucGRm?="', "\xe5.pdf"),
        ('form-data; name="file"; filename="C:\\\\fakepath\\\\a.pdf"', "a.pdf"),
        ('attachment; filename="../../etc/passwd"', "passwd"),
        (b'attachment; filename="a\x00\x07b\x7f.pdf"', "a  b .pdf"),
        ("attachment", ""),
        (f'attachment; filename="{"a" * 400}.pdf"', f"{'a' * 251}.pdf"),
        ('attachment;\r\n filename="a.pdf" (the letter)', "a.pdf"),
    ],
)
def test_file_name_of_the_disposition_is_the_label(
    post: Post, disposition: str | bytes, label: str
) -> None:
    """As it came from a gateway in raw UTF-8, from browsers, mail programs and attackers."""
    value = disposition.encode() if isinstance(disposition, str) else disposition

    stored = sent(post, "Content-Type: text/xml", b"Content-Disposition: " + value)

    assert stored.label == label


@pytest.mark.parametrize(
    "line",
    [
        b"Content-Description: \x00\x1b[31m",
        b"X-Long: " + b"a" * 12_000,
        b"X-Twice: 1\r\nX-Twice: 2",
        b"Content-Disposition: \xff\xfe\x00",
        b"MIME-Version: 1.0 (produced by \x08)",
        b"Content-Length: -1",
        b"Content-Location: \x01",
    ],
)
def test_header_that_nobody_reads(post: Post, line: bytes) -> None:
    sent(post, "Content-Type: text/xml", line)


@pytest.mark.requirement("EB-008")
@pytest.mark.parametrize("value", ["binary", "8BIT", "binary (as it is)", '"7bit"'])
def test_transfer_encoding_with_a_comment(post: Post, value: str) -> None:
    sent(post, "Content-Type: text/xml", f"Content-Transfer-Encoding: {value}")
