"""multipart/related: bytes to parts and back. Knows no dialect and no XML.

Parsed by searching for the boundary, never line by line: a payload is copied once, when it is
taken out of the body.
"""

import binascii
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from msh.protocol.errors import Unreadable

from .text import has_control, shown

PART_LIMIT = 1000  # each part costs time, however small it is
PART_HEADER_LIMIT = 16 * 1024
"""Bytes of one part's MIME headers."""
CONTENT_TYPE_LIMIT = 255
"""Characters of a payload's Content-Type."""
BINARY = "Content-Transfer-Encoding: binary\r\n"
"""The header line of a part whose bytes stand there as they are."""

# Printable ASCII but `<` and `>`: the header puts the id between them.
_CONTENT_ID = re.compile(r"[!-;=?-~]{1,255}")
# type/subtype; parameters are any printable ASCII that does not end in a blank.
_CONTENT_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?: *;[ -~]*[!-~])?", re.ASCII)
# A header may go on in the next line, which then begins with white space (RFC 5322 §2.2.3).
_FOLD = re.compile(r"\r?\n[ \t]+|\t")
# name=value or name="value", where a backslash quotes the next character.
_PARAMETER = re.compile(r';\s*([^\s=;"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))')
_QUOTED_PAIR = re.compile(r"\\(.)")
_READ = frozenset({"content-id", "content-type", "content-transfer-encoding"})
_IDENTITY = frozenset({"7bit", "8bit", "binary"})
_BASE64_BLANK = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class MediaType:
    """A Content-Type: its name and the names of its parameters in lower case."""

    name: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """One part, still inside the body it came in, with the headers that we read."""

    headers: Mapping[str, str]
    body: bytes
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes as sent, before any decoding."""
        return self.end - self.start

    @property
    def content_id(self) -> str:
        """Without angle brackets, empty if the part has none."""
        return _bare(self.headers.get("content-id", ""))

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "text/plain")  # RFC 2045 §5.2

    def content(self) -> bytes:
        """The decoded bytes. Raises ValueError if the transfer encoding is unknown or broken."""
        raw = self.body[self.start : self.end]
        encoding = self.headers.get("content-transfer-encoding", "binary").lower()
        if encoding in _IDENTITY:
            return raw
        if encoding == "base64":
            return _from_base64(raw)
        if encoding == "quoted-printable":
            return binascii.a2b_qp(raw)
        raise ValueError(f"unknown Content-Transfer-Encoding {shown(encoding)}")


def new_boundary() -> str:
    return f"msh-{secrets.token_hex(16)}"


def compose_part(
    content_id: str,
    content_type: str,
    content: bytes,
    boundary: str,
    *,
    last: bool,
    encoding: str = BINARY,
) -> bytes:
    """Delimiter line, headers, the content as it is, line break; closing delimiter if `last`.

    Raises ValueError if the content contains the boundary, or a header could not be read back.
    """
    mark = boundary.encode("ascii")
    check_part(content_id, content_type)
    if mark in content:
        raise ValueError(f"part {content_id} contains the boundary {boundary}")
    headers = (
        f"--{boundary}\r\n"
        f"Content-ID: <{content_id}>\r\n"
        f"Content-Type: {content_type}\r\n"
        f"{encoding}\r\n"
    ).encode("ascii")
    return b"".join((headers, content, b"\r\n--" + mark + b"--\r\n" if last else b"\r\n"))


def part_content(part: bytes, boundary: str) -> bytes:
    closing = f"\r\n--{boundary}--\r\n".encode("ascii")
    begin = part.index(b"\r\n\r\n") + 4
    return part[begin : -len(closing) if part.endswith(closing) else -len(b"\r\n")]


def check_part(content_id: str, content_type: str) -> None:
    """Raises ValueError for what cannot stand in the headers of a part."""
    if not _CONTENT_ID.fullmatch(content_id):
        raise ValueError(f"{content_id!r} is not a content id: 1 to 255 ASCII characters")
    if len(content_type) > CONTENT_TYPE_LIMIT or not _CONTENT_TYPE.fullmatch(content_type):
        raise ValueError(
            f"the content type {shown(content_type)} of part {content_id} is not valid"
        )


@lru_cache(maxsize=256)
def media_type(text: str) -> MediaType:
    """What a Content-Type says. Never fails; of a repeated parameter the first counts."""
    parameters: dict[str, str] = {}
    for name, quoted, token in _PARAMETER.findall(text):
        parameters.setdefault(name.lower(), _QUOTED_PAIR.sub(r"\1", quoted) or token)
    return MediaType(text.partition(";")[0].strip().lower(), parameters)


def parse(content_type: str, body: bytes, *, alone: frozenset[str]) -> list[Part]:
    """The parts, the root first (`start`), the others as they stand.

    A media type in `alone` is a body that is the root itself. Raises Unreadable: 415 if the
    media type is neither, 400 if the package is malformed, cut short or has over 1,000 parts.
    """
    parts, problem = parse_readable(content_type, body, alone=alone)
    if problem:
        raise problem
    return parts


def parse_readable(
    content_type: str, body: bytes, *, alone: frozenset[str]
) -> tuple[list[Part], Unreadable | None]:
    """As `parse`, but of a package that is broken behind its first part: the parts that were
    read, the first of them for the root if `start` names none, and what is wrong."""
    related = media_type(content_type)
    if related.name in alone:
        return [Part({"content-type": content_type}, body, 0, len(body))], None
    if related.name != "multipart/related":
        raise Unreadable(f"{shown(related.name)} is not a supported media type", status=415)
    boundary = related.parameters.get("boundary", "")
    if not boundary or not boundary.isascii():
        raise Unreadable("Content-Type has no usable boundary")
    parts: list[Part] = []
    try:
        parts.extend(_split(body, boundary.encode("ascii")))
        if "start" in related.parameters:
            _move_root_first(parts, _bare(related.parameters["start"]))
    except Unreadable as problem:
        if not parts:
            raise
        return parts, problem
    return parts, None


def _split(body: bytes, boundary: bytes) -> Iterator[Part]:
    line_feed = -1  # of the delimiter line before
    for at, next_line_feed, closing in _delimiters(body, b"--" + boundary):
        if line_feed >= 0:
            yield _part(body, line_feed, at)
        elif closing:
            raise Unreadable("the multipart body has no part")
        if closing:
            return
        line_feed = next_line_feed
    if line_feed < 0:
        raise Unreadable("the boundary given in Content-Type does not occur in the body")
    raise Unreadable("the closing boundary is missing: the message is truncated")


def _delimiters(body: bytes, mark: bytes) -> Iterator[tuple[int, int, bool]]:
    """Where each delimiter line begins, where its line feed is, whether it closes.

    A bare line feed is taken for a line break, so that a document that ends in one and
    forgets the CRLF before the delimiter is read as its author meant it.
    """
    at = 0 if body.startswith(mark) else _line_beginning(body, mark, 0)
    for _ in range(PART_LIMIT + 1):
        if at < 0:
            return
        line_feed = body.find(b"\n", at)
        if line_feed < 0:
            line_feed = len(body)
        rest = body[at + len(mark) : line_feed].rstrip()
        if rest in (b"", b"--"):  # else a longer line that only begins like a delimiter
            yield at, line_feed, rest == b"--"
        at = _line_beginning(body, mark, line_feed)
    raise Unreadable(f"the multipart body has more than {PART_LIMIT} parts")


def _line_beginning(body: bytes, mark: bytes, since: int) -> int:
    found = body.find(b"\n" + mark, since)
    return found + 1 if found >= 0 else -1


def _part(body: bytes, line_feed: int, delimiter: int) -> Part:
    limit = min(delimiter, line_feed + PART_HEADER_LIMIT)
    crlf = body.find(b"\n\r\n", line_feed, limit)
    bare = body.find(b"\n\n", line_feed, limit if crlf < 0 else crlf)
    if crlf < 0 and bare < 0:
        raise Unreadable(f"a part has no end of headers within {PART_HEADER_LIMIT} bytes")
    headers_end, start = (bare, bare + 2) if bare >= 0 else (crlf, crlf + 3)
    end = delimiter - 1
    if body[end - 1 : end] == b"\r" and body[line_feed - 1 : line_feed] == b"\r":
        end -= 1  # a payload may end in CR where the package's line breaks are bare
    return Part(_headers(body[line_feed + 1 : headers_end]), body, start, max(start, end))


def _headers(block: bytes) -> dict[str, str]:
    text = _FOLD.sub(" ", _decoded(block))
    headers: dict[str, str] = {}
    for line in text.split("\n") if text.strip() else ():
        name, colon, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        if not colon or not name or has_control(value):
            raise Unreadable(f"{shown(line)} is not a MIME header")
        if name in _READ:
            if name in headers:
                raise Unreadable(f"a part has the header {name} twice")
            headers[name] = value
    return headers


def _decoded(block: bytes) -> str:
    try:
        return block.decode("utf-8")
    except UnicodeDecodeError:
        return block.decode("latin-1")


def _move_root_first(parts: list[Part], start: str) -> None:
    for index, part in enumerate(parts):
        if part.content_id == start:
            parts.insert(0, parts.pop(index))
            return
    raise Unreadable(f"no part has the Content-ID {shown(start)} named by start")


def _bare(content_id: str) -> str:
    return content_id.strip().removeprefix("<").removesuffix(">").strip()


def _from_base64(raw: bytes) -> bytes:
    try:
        return binascii.a2b_base64(raw.translate(None, _BASE64_BLANK), strict_mode=True)
    except binascii.Error as error:
        raise ValueError(f"invalid base64: {error}") from None
