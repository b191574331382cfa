"""One message in any MIME dress: what nobody reads, and how the rest is written, is no matter."""

import base64
import quopri
import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.header import Header
from string import ascii_letters, digits

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msh.protocol.ebms.message import ReceivedMessage
from msh.wire.ebms2 import envelope
from tests.wire.ebms2.samples import EXAMPLE, ORDER, parsed

SEEN = re.compile(rb"content-(type|id|transfer-encoding|disposition)\s*$", re.IGNORECASE)
NAMES = (
    st.tuples(st.sampled_from(ascii_letters), st.text(f"{ascii_letters}{digits}-", max_size=20))
    .map(lambda parts: "".join(parts).encode())
    .filter(lambda name: not SEEN.match(name))
)
KNOWN = st.sampled_from(
    [
        *(b"Content-Description", b"Content-Location", b"Content-Length", b"MIME-Version"),
        *(b"Content-Language", b"Content-Duration", b"Date", b"X-Content-Type", b"Content-ID-2"),
        *(b"Content-Base", b"Content-MD5", b"SOAPAction", b"Received", b"DKIM-Signature"),
    ]
)
# Any bytes but a line feed, which would end the header.
VALUES = st.binary(max_size=60).map(lambda value: value.replace(b"\n", b" "))
FOLDED = st.lists(VALUES, min_size=1, max_size=3).map(b"\r\n ".join)
UNREAD = st.lists(st.tuples(NAMES | KNOWN, FOLDED), max_size=4)


def line_of(name: bytes, value: bytes) -> bytes:
    return name + b": " + value + b"\r\n"


def any_case(name: str) -> st.SearchStrategy[str]:
    """One number is drawn: a bit for each letter."""
    return st.integers(0, (1 << len(name)) - 1).map(
        lambda upper: "".join(
            one.upper() if upper >> place & 1 else one.lower() for place, one in enumerate(name)
        )
    )


@dataclass(frozen=True)
class Dress:
    """How a part is written: headers that nobody reads, order, case and encoding of the others."""

    unread: Sequence[tuple[bytes, bytes]]
    names: tuple[str, str, str]
    encoding: str
    is_first: bool
    fold: str
    comment: str

    def part(self, content_id: str, content_type: str, content: bytes) -> bytes:
        type_name, id_name, encoding_name = self.names
        read = [
            f"{type_name}:{self.fold}{content_type}{self.comment}",
            f"{id_name}:{self.fold}<{content_id}>{self.comment}",
        ]
        if self.encoding:
            read.append(f"{encoding_name}:{self.fold}{self.encoding}{self.comment}")
        own = b"".join(f"{line}\r\n".encode() for line in read)
        others = b"".join(line_of(name, value) for name, value in self.unread)
        head = own + others if self.is_first else others + own
        return head + b"\r\n" + encoded(self.encoding, content)


def encoded(encoding: str, content: bytes) -> bytes:
    if encoding.lower() == "base64":
        return base64.encodebytes(content)
    if encoding.lower() == "quoted-printable":
        return quopri.encodestring(content)
    return content


DRESSES = st.builds(
    Dress,
    UNREAD,
    st.tuples(*map(any_case, ("Content-Type", "Content-ID", "Content-Transfer-Encoding"))),
    st.sampled_from(
        ["", "7bit", "8BIT", "binary", "base64", "BASE64", "quoted-printable", "Quoted-Printable"]
    ),
    st.booleans(),
    st.sampled_from([" ", "", "\t", "\r\n ", "\r\n\t", "\r\n  ", "\r\r\n "]),
    st.sampled_from(["", " ", " (comment)", "\r\n (folded; a=b)"]),
)
BOUNDARIES = st.text(f"{ascii_letters}{digits}'()+_,./:=?<>-", min_size=8, max_size=40)


def package(parts: Sequence[bytes], boundary: str, before: bytes, after: bytes) -> bytes:
    mark = boundary.encode()
    inner = b"".join(b"--%b\r\n%b\r\n" % (mark, part) for part in parts)
    return b"%b\r\n%b--%b--%b" % (before, inner, mark, after)


def seen(received: ReceivedMessage) -> tuple[object, ...]:
    payloads = [(one.content, one.content_id, one.description) for one in received.payloads]
    return received.message, payloads, received.content_digest, received.defects


@pytest.mark.requirement("EB-008", "EB-012", "EB-101")
@settings(max_examples=300)
@given(
    DRESSES,
    DRESSES,
    BOUNDARIES,
    st.booleans(),
    st.sampled_from([b"", b"\r\n", b"\r\nfor the curious\r\n"]),
)
def test_dress_changes_nothing(
    root: Dress, order: Dress, boundary: str, is_root_last: bool, around: bytes
) -> None:
    parts = [
        root.part("root@x", "text/xml; charset=utf-8", EXAMPLE.encode()),
        order.part("order@sender.example", "application/xml", ORDER),
    ]
    body = package(parts[::-1] if is_root_last else parts, boundary, around, around)
    content_type = f'multipart/related; type="text/xml"; boundary="{boundary}"; start="<root@x>"'

    assert envelope.knows(content_type, body)
    assert seen(envelope.parse(content_type, body)) == seen(parsed())


@pytest.mark.requirement("EB-051")
@settings(max_examples=200)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=60))
def test_a_file_name_in_raw_utf_8_or_encoded_words_is_the_label(name: str) -> None:
    """As gateways and mail programs write it; nothing of it refuses the message."""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    word = Header(name, "utf-8", maxlinelen=10_000).encode()
    wanted = re.split(r"[/\\]", name)[-1].strip(" \t\r\n")
    for value in (f'attachment; filename="{quoted}"', f'attachment; filename="{word}"'):
        head = f"Content-Disposition: {value}\r\nContent-ID: <order@sender.example>\r\n\r\n"
        received = parsed(EXAMPLE, head.encode() + ORDER)
        assert received.defects == ()
        (payload,) = received.payloads
        if not re.search(r"[\ufffe\uffff]|=\?", name):
            assert payload.label == ("" if wanted in (".", "..") else wanted)
