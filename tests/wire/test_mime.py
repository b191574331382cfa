"""multipart/related: written by us and read by Python's email package, written by hand or by
email and read by us."""

import contextlib
import time
import tracemalloc
from collections.abc import Callable
from email import message_from_bytes, policy
from email.message import MIMEPart

import pytest

from msh.protocol.errors import Unreadable
from msh.wire import mime
from tests.wire.samples import package

ALONE = frozenset({"application/vnd.eb+xml"})
RELATED = "multipart/related; boundary=edge"
EVERY_BYTE = bytes(range(256)) * 3


def split(body: bytes, content_type: str = RELATED) -> list[mime.Part]:
    return mime.parse(content_type, body, alone=ALONE)


def contents(body: bytes, content_type: str = RELATED) -> list[bytes]:
    return [part.content() for part in split(body, content_type)]


def reason(body: bytes, content_type: str = RELATED, status: int = 400) -> str:
    with pytest.raises(Unreadable) as caught:
        split(body, content_type)
    assert caught.value.status == status
    return str(caught.value)


# Composing


def test_a_composed_part_is_headers_and_the_content_as_it_is() -> None:
    part = mime.compose_part("p@x", "image/png", EVERY_BYTE, "edge", last=False)
    head, _, rest = part.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"--edge",
        b"Content-ID: <p@x>",
        b"Content-Type: image/png",
        b"Content-Transfer-Encoding: binary",
    ]
    assert rest == EVERY_BYTE + b"\r\n"


def test_the_last_part_ends_with_the_closing_delimiter() -> None:
    part = mime.compose_part("p@x", "text/plain", b"a", "edge", last=True)
    assert part.endswith(b"\r\n\r\na\r\n--edge--\r\n")


def test_composed_package_is_read_by_another_parser() -> None:
    body = mime.compose_part("root@x", "application/xml", b"<a/>", "edge", last=False)
    body += mime.compose_part("p@x", "image/png", EVERY_BYTE, "edge", last=True)
    raw = b"Content-Type: " + RELATED.encode() + b"\r\n\r\n" + body
    message = message_from_bytes(raw, policy=policy.HTTP)
    first, second = message.iter_parts()
    assert not message.defects
    assert first["Content-ID"] == "<root@x>"
    assert second.get_content_type() == "image/png"
    assert second.get_payload(decode=True) == EVERY_BYTE


@pytest.mark.parametrize("content", [b"edge", b"--edge", b"a\r\n--edge--\r\nb", b"xxedgexx"])
def test_a_part_that_holds_the_boundary_is_not_composed(content: bytes) -> None:
    with pytest.raises(ValueError, match="p@x contains the boundary edge"):
        mime.compose_part("p@x", "text/plain", content, "edge", last=True)


@pytest.mark.parametrize("content_id", ["", "a b", "a>b", "<a>", "a\r\nb", "\u4e2d", "a" * 256])
def test_a_content_id_that_no_header_can_hold_is_refused(content_id: str) -> None:
    with pytest.raises(ValueError, match="is not a content id"):
        mime.compose_part(content_id, "text/plain", b"", "edge", last=True)


@pytest.mark.parametrize(
    "content_type",
    ["", "xml", "a/b\r\nX: y", "a/b; c=\u4e2d", "a/b ", " a/b", "a b/c", "a/b; c" + "d" * 255],
    ids=ascii,
)
def test_a_content_type_that_no_header_can_hold_is_refused(content_type: str) -> None:
    with pytest.raises(ValueError, match="content type"):
        mime.compose_part("p@x", content_type, b"", "edge", last=True)


def test_a_new_boundary_is_new_and_fits_the_rule() -> None:
    boundaries = {mime.new_boundary() for _ in range(100)}
    assert len(boundaries) == 100
    for boundary in boundaries:
        assert len(boundary) <= 70  # RFC 2046 §5.1.1
        assert boundary.replace("-", "").isalnum()


# Content-Type


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("text/xml", "text/xml", {}),
        ("Text/XML ; Charset=UTF-8", "text/xml", {"charset": "UTF-8"}),
        ('a/b;c="d;e=f";g=h', "a/b", {"c": "d;e=f", "g": "h"}),
        (r'a/b; c="d\"e\\"', "a/b", {"c": 'd"e\\'}),
        ("a/b; type=application/vnd.eb+xml", "a/b", {"type": "application/vnd.eb+xml"}),
        ("a/b;\r\n\tc = d", "a/b", {"c": "d"}),
        ("a/b; c=1; C=2", "a/b", {"c": "1"}),
        ('a/b; c=""', "a/b", {"c": ""}),
        ("", "", {}),
        (";;;=", "", {}),
    ],
)
def test_media_type_reads(text: str, name: str, parameters: dict[str, str]) -> None:
    media = mime.media_type(text)
    assert (media.name, media.parameters) == (name, parameters)


@pytest.mark.parametrize("flood", [';a="', ';a="\\', "; ", ';a=b"', "\\", ";a=" + "\\" * 7 + '"'])
def test_media_type_of_a_flood_is_read_in_time(flood: str) -> None:
    started = time.process_time()
    mime.media_type("a/b" + flood * (mime.PART_HEADER_LIMIT // len(flood)))
    assert time.process_time() - started < 0.2


@pytest.mark.parametrize("content_type", ["", "text/html", "multipart/mixed; boundary=edge", "x"])
def test_another_media_type_is_415(content_type: str) -> None:
    """D35."""
    reason(package(b"\r\na"), content_type, status=415)


@pytest.mark.parametrize(
    "content_type",
    ["multipart/related", 'multipart/related; boundary=""', "multipart/related; boundary=\u4e2d"],
    ids=ascii,
)
def test_a_package_without_a_usable_boundary_is_refused(content_type: str) -> None:
    assert "boundary" in reason(package(b"\r\na"), content_type)


def test_a_body_that_is_the_root_itself_is_taken_whole() -> None:
    (part,) = split(b"<a/>\r\n", "application/vnd.eb+xml; charset=utf-8")
    assert part.content() == b"<a/>\r\n"
    assert part.content_type == "application/vnd.eb+xml; charset=utf-8"


# Splitting


@pytest.mark.parametrize("newline", [b"\r\n", b"\n"])
def test_parts_are_split_whatever_the_line_break(newline: bytes) -> None:
    parts = [b"Content-ID: <1@x>" + newline * 2 + b"one", newline + b"two", newline]
    body = package(*parts, newline=newline)
    assert contents(body) == [b"one", b"two", b""]
    assert [part.content_id for part in split(body)] == ["1@x", "", ""]


def test_preamble_epilogue_and_padding_are_passed_over() -> None:
    body = (
        b"This is MIME.\r\n--edgeless\r\n--edge \t\r\n\r\none\r\n--edge\t\r\n\r\ntwo"
        b"\r\n--edge-- \r\nafter\r\n--edge\r\n\r\nthree\r\n--edge--"
    )
    assert contents(body) == [b"one", b"two"]


def test_the_closing_delimiter_may_end_the_body() -> None:
    assert contents(package(b"\r\none", end=b"--edge--")) == [b"one"]


@pytest.mark.parametrize(
    "content",
    [
        b"--edgewise",
        b"\r\n--edgewise\r\n",
        b"\r\n--edge-\r\n",
        b"\r\n--edge--x\r\n",
        b"\r\n -- edge\r\n",
        b"x--edge\r\n",
        b"\r\n--edg",
    ],
)
def test_text_like_a_delimiter_is_content(content: bytes) -> None:
    assert contents(package(b"\r\n" + content)) == [content]


@pytest.mark.parametrize("content", [b"", b"\r", b"\n", b"\r\n", b"\r\n\r\n", EVERY_BYTE, b"a\r"])
def test_content_keeps_every_byte_to_the_last_line_break(content: bytes) -> None:
    assert contents(package(b"\r\n" + content)) == [content]


def test_a_carriage_return_before_a_bare_line_feed_is_content() -> None:
    assert contents(package(b"\nends in\r", newline=b"\n")) == [b"ends in\r"]


def test_a_delimiter_after_a_bare_line_feed_is_read_as_meant() -> None:
    """A document that ends in a line feed, and no CRLF before the delimiter."""
    assert contents(b"--edge\r\n\r\n<a/>\n--edge--\r\n") == [b"<a/>"]


def test_the_blank_line_may_serve_as_the_break_before_the_delimiter() -> None:
    (part,) = split(b"--edge\r\nContent-ID: <1@x>\r\n\r\n--edge--\r\n")
    assert part.content() == b""
    assert part.size == 0


def test_a_boundary_may_hold_characters_that_patterns_use() -> None:
    boundary = "=_.*(a+b)'?:/,"
    body = package(b"\r\none", b"\r\ntwo", boundary=boundary)
    assert contents(body, f'multipart/related; boundary="{boundary}"') == [b"one", b"two"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "does not occur in the body"),
        (b"no delimiter here", "does not occur in the body"),
        (b"--edge--\r\n", "no part"),
        (package(b"\r\none", end=b""), "truncated"),
        (package(b"\r\none", end=b"--edg"), "truncated"),
        (package(b"\r\none", end=b"--edge"), "truncated"),
        (package(b"\r\none", end=b"--edge-"), "truncated"),
        (b"--edge\r\n--edge--\r\n", "no end of headers"),
        (package(b"Content-ID: <1@x>"), "no end of headers"),
        (package(b"no colon\r\n\r\none"), "not a MIME header"),
        (package(b": none\r\n\r\none"), "not a MIME header"),
        (package(b"Content-ID: \x00\r\n\r\none"), "not a MIME header"),
        (package(b"Content-ID: b\rC: d\r\n\r\none"), "not a MIME header"),
        (package(b"Content-ID: <1>\r\ncontent-id: <2>\r\n\r\none"), "twice"),
        (package(b"A: " + b"b" * 20_000 + b"\r\n\r\none"), "no end of headers"),
    ],
)
def test_a_malformed_package_is_refused(body: bytes, words: str) -> None:
    assert words in reason(body)


def test_no_prefix_of_a_package_is_taken_for_the_whole() -> None:
    body = package(b"Content-ID: <1@x>\r\n\r\none", b"\r\ntwo")
    complete = body.index(b"--edge--") + len(b"--edge--")
    for length in range(complete):
        reason(body[:length])
    assert contents(body[:complete]) == [b"one", b"two"]


def test_headers_are_unfolded_and_their_names_have_no_case() -> None:
    part = (
        b"CONTENT-type:\ttext/plain;\r\n charset=utf-8\r\ncontent-ID : < 1@x >\r\n"
        b"X-Name: caf\xc3\xa9 \xe9\r\nX-Name: again\r\n\r\none"
    )
    (read,) = split(package(part))
    assert read.content_type == "text/plain; charset=utf-8"
    assert read.content_id == "1@x"


def test_a_part_without_content_type_is_plain_text() -> None:
    assert split(package(b"\r\none"))[0].content_type == "text/plain"


# start


@pytest.mark.parametrize("start", ['"<2@x>"', "2@x", '"2@x"'])
def test_start_names_the_root(start: str) -> None:
    body = package(b"Content-ID: <1@x>\r\n\r\none", b"Content-ID: <2@x>\r\n\r\ntwo", b"\r\n3")
    assert contents(body, f"{RELATED}; start={start}") == [b"two", b"one", b"3"]


def test_start_that_names_no_part_is_refused() -> None:
    assert "start" in reason(package(b"\r\none"), f'{RELATED}; start="<2@x>"')


# Broken behind the root


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (package(b"\r\na", b"\r\nb", end=b""), "truncated"),
        (package(b"\r\na", b"nonsense\r\n\r\nb"), "not a MIME header"),
        (package(b"\r\na", b"b"), "end of headers"),
    ],
)
def test_what_stands_before_the_break_can_be_read(body: bytes, words: str) -> None:
    read = mime.parse_readable(RELATED, body, alone=ALONE)
    assert [part.content() for part in read.parts] == [b"a"]
    assert words in str(read.problem)
    assert words in reason(body)


def test_a_start_that_names_no_part_leaves_the_first_one_first() -> None:
    body = package(b"\r\na", b"\r\nb")
    read = mime.parse_readable(f'{RELATED}; start="<x>"', body, alone=ALONE)
    assert [part.content() for part in read.parts] == [b"a", b"b"]
    assert "named by start" in str(read.problem)


# Transfer encodings


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable"])
def test_a_part_encoded_by_another_library_is_decoded(encoding: str) -> None:
    part = MIMEPart(policy.SMTP)
    part.set_content(EVERY_BYTE, "application", "octet-stream", cte=encoding)
    assert contents(package(part.as_bytes().removesuffix(b"\r\n"))) == [EVERY_BYTE]


@pytest.mark.parametrize("encoding", [b"7bit", b"8BIT", b"Binary"])
def test_a_part_that_is_not_encoded_is_taken_as_it_is(encoding: bytes) -> None:
    part = b"Content-Transfer-Encoding: " + encoding + b"\r\n\r\n" + EVERY_BYTE
    assert contents(package(part)) == [EVERY_BYTE]


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        (b"base64", b"QUJ"),
        (b"base64", b"QUJD!"),
        (b"base64", b"QUI=QUI="),
        (b"base64", b"===="),
        (b"base64", b"QUJD\x00"),
        (b"x-uuencode", b"QUJD"),
        (b"gzip", b""),
    ],
)
def test_a_broken_or_unknown_encoding_is_no_content(encoding: bytes, content: bytes) -> None:
    (part,) = split(package(b"Content-Transfer-Encoding: " + encoding + b"\r\n\r\n" + content))
    with pytest.raises(ValueError, match=r"base64|unknown"):
        part.content()


# Floods


def test_a_thousand_parts_are_taken_and_one_more_is_not() -> None:
    """D60."""
    assert len(split(package(*[b"\r\n"] * mime.PART_LIMIT))) == mime.PART_LIMIT
    assert "more than 1000 parts" in reason(package(*[b"\r\n"] * (mime.PART_LIMIT + 1)))


FLOODS: dict[str, Callable[[], bytes]] = {
    "parts": lambda: package(*[b"\r\n"] * 10_000),
    "parts of a big body": lambda: package(*[b"\r\n"] * 2_000_000),
    "near delimiters": lambda: package(b"\r\n" + b"\n--edgx" * 3_000_000),
    "false delimiters": lambda: package(b"\r\n" + b"\n--edgex" * 3_000_000),
    "line feeds": lambda: package(b"a\n" * 10_000_000),
    "no end": lambda: package(b"\r\n" + b"a" * 25_000_000, end=b""),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_takes_neither_time_nor_memory(name: str) -> None:
    body = FLOODS[name]()
    tracemalloc.start()
    started = time.process_time()
    with contextlib.suppress(Unreadable):
        split(body)
    elapsed = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert elapsed < 1
    assert peak < 2_000_000


def test_splitting_does_not_copy_the_contents() -> None:
    body = package(*[b"\r\n" + b"a" * 1_000_000] * 20)
    tracemalloc.start()
    parts = split(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(part.size for part in parts) == 20_000_000
    assert peak < 1_000_000


# As others write it


@pytest.mark.parametrize(
    ("text", "boundary"),
    [
        ("multipart/related (a (nested) comment); boundary=edge (why)", "edge"),
        ('multipart/related; boundary="(edge)"', "(edge)"),
        (r"multipart/related; (\) b=c) boundary=edge", "edge"),
        ("multipart/related; boundary=edge; x=(", "edge"),
        ("multipart/related; boundary*0=ed; boundary*1=ge", "edge"),
        ('multipart/related; boundary="<<001-6a1f0c>>"', "<<001-6a1f0c>>"),
        ("multipart/related; boundary===--27089--16668--==", "==--27089--16668--=="),
    ],
)
def test_a_boundary_is_found_whatever_is_around_it(text: str, boundary: str) -> None:
    assert contents(package(b"\r\none", boundary=boundary), text) == [b"one"]


@pytest.mark.parametrize("flood", ["(", "((", ")", '("', "(\\", '"(', '\\"', "()", ";a*1=", "(a"])
def test_a_flood_of_comments_is_read_in_time(flood: str) -> None:
    started = time.process_time()
    mime.media_type("a/b" + flood * (mime.PART_HEADER_LIMIT // len(flood)))
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("start", "root", "noted"),
    [
        ('""', b"one", True),
        ('"<>"', b"one", True),
        ('"%3C2%40x%3E"', b"two", True),
        ('"<2%40x>"', b"two", True),
        ("cid:2@x", b"two", True),
        ('"<2@x>"', b"two", False),
        ('"<3%40x>"', b"three", False),
    ],
)
def test_start_is_read_as_it_was_meant(start: str, root: bytes, noted: bool) -> None:
    body = package(
        b"Content-ID: <1@x>\r\n\r\none",
        b"Content-ID: <2@x> (the root)\r\n\r\ntwo",
        b"Content-ID: <3%40x>\r\n\r\nthree",
    )
    read = mime.parse_readable(f"{RELATED}; start={start}", body, alone=ALONE)
    assert read.parts[0].content() == root
    assert read.problem is None
    assert len(read.notes) == noted


@pytest.mark.parametrize("start", ["cid:", "%3C%3E", "2@X", "cid:cid:2@x"])
def test_start_is_not_guessed(start: str) -> None:
    body = package(b"\r\none", b"Content-ID: <2@x>\r\n\r\ntwo")
    assert "named by start" in reason(body, f'{RELATED}; start="{start}"')


@pytest.mark.parametrize(
    "head",
    [
        b'Content-Disposition: attachment; filename="\x00\x07.pdf"\r\n',
        b"X-Anything: \r \x7f\x80\r\nX-Anything: twice\r\n",
        b"Content-Disposition: a\r\nContent-Disposition: b\r\n",
        b"Content-Type: text/plain\r\n",
        b"X-Folded: a\r\r\n\tb\r\n",
    ],
)
def test_a_header_that_does_not_decide_refuses_nothing(head: bytes) -> None:
    (part,) = split(package(head + b"Content-Type: text/plain\r\nContent-ID: <1@x>\r\n\r\none"))
    assert (part.content_id, part.content_type) == ("1@x", "text/plain")
    assert part.content() == b"one"


def test_a_content_type_is_one_line() -> None:
    (part,) = split(package(b'Content-Type: a/b; name=\r\r\n\t"x\x07y\x85"\r\n\r\none'))
    assert part.content_type == 'a/b; name= "x y "'
    assert part.file_name.text == "x y"


@pytest.mark.parametrize("encoding", [b"base64 (MIME)", b'"base64"', b"(a) BASE64"])
def test_a_transfer_encoding_may_have_a_comment(encoding: bytes) -> None:
    body = package(b"Content-Transfer-Encoding: " + encoding + b"\r\n\r\nQUJD")
    assert contents(body) == [b"ABC"]


def test_bytes_that_are_no_part_have_no_dress() -> None:
    assert mime.dress_of_part(b"damaged", b"damaged", "edge") == 0
