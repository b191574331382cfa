"""multipart/related: bytes to parts and back. Knows no dialect and no XML.

Parsed by searching for the boundary, never line by line: a payload is copied once, when it is
taken out of the body.
"""

import binascii
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote

from msh.protocol.errors import Unreadable
from msh.protocol.reason import Refusal

from .file_name import FileName, file_name
from .parameter import PARAMETER, parameters, without_comments
from .text import has_control, prose, shown

PART_LIMIT = 1000  # each part costs time, however small it is
PART_HEADER_LIMIT = 16 * 1024
"""Bytes of one part's MIME headers."""
DELIMITER_LIMIT = 80
"""Bytes of a delimiter with its line ends, at least: a boundary has at most 70."""
CONTENT_TYPE_LIMIT = 255
"""Characters of a payload's Content-Type."""
BINARY = "Content-Transfer-Encoding: binary\r\n"
"""The header line of a part whose bytes stand there as they are."""

# Printable ASCII but `<` and `>`: the header puts the id between them.
_CONTENT_ID = re.compile(r"[!-;=?-~]{1,255}")
# type/subtype; parameters are any printable ASCII that does not end in a blank.
_CONTENT_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?: *;[ -~]*[!-~])?", re.ASCII)
# A header may go on in the next line, which then begins with white space (RFC 5322 §2.2.3). Some
# senders write a second carriage return.
_FOLD = re.compile(r"\r{0,2}\n[ \t]+|\t")
_DECIDING = frozenset({"content-id", "content-type", "content-transfer-encoding"})
_READ = _DECIDING | {"content-disposition"}
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
        """The Content-Id without angle brackets, empty if the part has none."""
        return _bare(self.headers.get("content-id", ""))

    @property
    def content_type(self) -> str:
        """One line, whatever came."""
        return prose(self.headers.get("content-type", "text/plain"))  # RFC 2045 §5.2

    @property
    def charset(self) -> str:
        """The charset of its Content-Type, empty if there is none."""
        return media_type(self.content_type).parameters.get("charset", "")

    @property
    def file_name(self) -> FileName:
        """The file name of its Content-Disposition, else of the Content-Type, where mail programs
        put it."""
        named = parameters(self.headers.get("content-disposition", "")).get("filename", "")
        return file_name(named or parameters(self.content_type).get("name", ""))

    def content(self) -> bytes:
        """The decoded bytes. Raises ValueError if the transfer encoding is unknown or broken."""
        raw = self.body[self.start : self.end]
        encoding = without_comments(self.headers.get("content-transfer-encoding", "binary"))
        encoding = encoding.strip(' "').lower()
        if encoding in _IDENTITY:
            return raw
        if encoding == "base64":
            return _from_base64(raw)
        if encoding == "quoted-printable":
            return binascii.a2b_qp(raw)
        raise ValueError(f"unknown Content-Transfer-Encoding {shown(encoding)}")


@dataclass(slots=True)
class Package:
    """The parts of a package, the root first. `problem`: the package is broken after these parts.
    `notes` are sentences for operators about what was read leniently."""

    parts: list[Part]
    problem: Unreadable | None = None
    notes: list[str] = field(default_factory=list)


def new_boundary() -> str:
    return f"msh-{secrets.token_hex(16)}"


def compose_part(
    content_id: str,
    content_type: str,
    content: bytes,
    boundary: str,
    *,
    last: bool,
    more: str = BINARY,
) -> bytes:
    """Delimiter line, headers, the content as it is, line break; closing delimiter if `last`.

    `more` are header lines besides Content-ID and Content-Type. Raises ValueError if the content
    contains the boundary, or a header could not be read back.
    """
    mark = boundary.encode("ascii")
    check_part(content_id, content_type)
    if mark in content:
        raise ValueError(f"part {content_id} contains the boundary {boundary}")
    headers = (
        f"--{boundary}\r\nContent-ID: <{content_id}>\r\nContent-Type: {content_type}\r\n{more}\r\n"
    ).encode("ascii")
    return b"".join((headers, content, b"\r\n--" + mark + b"--\r\n" if last else b"\r\n"))


def part_content(part: bytes, boundary: str) -> bytes:
    begin, end = _ends(part, part, boundary)
    return part[begin:-end]


def stored_document(head: bytes, boundary: str) -> bytes:
    """The header document in what stands before the payloads of a message of ours: its part, or the
    document alone (EB-001)."""
    return part_content(head, boundary) if head.startswith(f"--{boundary}".encode()) else head


def dress_of_part(begin: bytes, end: bytes, boundary: str) -> int:
    """Bytes of a part that are not its content: what is before and after it. `begin` and `end`: of
    the part, at least PART_HEADER_LIMIT and DELIMITER_LIMIT bytes, if it has so many. 0 if they are
    no part any more: a page shows what was damaged, too."""
    return sum(_ends(begin, end, boundary)) if b"\r\n\r\n" in begin else 0


def _ends(begin: bytes, end: bytes, boundary: str) -> tuple[int, int]:
    closing = f"\r\n--{boundary}--\r\n".encode("ascii")
    return begin.index(b"\r\n\r\n") + 4, len(closing if end.endswith(closing) else b"\r\n")


def check_part(content_id: str, content_type: str) -> None:
    """Raises ValueError for what cannot stand in the headers of a part."""
    if not _CONTENT_ID.fullmatch(content_id):
        raise ValueError(f"{content_id!r} is not a content id: 1 to 255 ASCII characters")
    if len(content_type) > CONTENT_TYPE_LIMIT or not _CONTENT_TYPE.fullmatch(content_type):
        raise ValueError(
            f"the content type {shown(content_type)} of part {content_id} is not valid"
        )


def fitting_type(content_type: str) -> str:
    """At most 255 characters of it: without the parameters that are too long, the longest first;
    what is no media type at all is application/octet-stream then."""
    while len(content_type) > CONTENT_TYPE_LIMIT:
        spans = [found.span() for found in PARAMETER.finditer(content_type)]
        if not spans:
            name = content_type.partition(";")[0].strip()
            return name if len(name) <= CONTENT_TYPE_LIMIT else "application/octet-stream"
        start, end = max(spans, key=lambda span: span[1] - span[0])
        content_type = content_type[:start] + content_type[end:]
    return content_type


@lru_cache(maxsize=256)
def media_type(text: str) -> MediaType:
    """Return media type and parameters of a Content-Type. Never fails; of a repeated parameter the
    first counts."""
    text = without_comments(text)
    return MediaType(text.partition(";")[0].strip().lower(), parameters(text))


def parse(content_type: str, body: bytes, *, alone: frozenset[str]) -> list[Part]:
    """The parts, the root first (`start`), the others as they stand.

    A media type in `alone` is a body that is the root itself. Raises Unreadable: 415 if the
    media type is neither, 400 if the package is malformed, cut short or has over 1,000 parts.
    """
    package = parse_readable(content_type, body, alone=alone)
    if package.problem:
        raise package.problem
    return package.parts


def parse_readable(content_type: str, body: bytes, *, alone: frozenset[str]) -> Package:
    """Like `parse`, but if the package is broken after its first part, return the parts that were
    read and what is wrong; the first part is the root if `start` names none of them."""
    related = media_type(content_type)
    if related.name in alone:
        return Package([Part({"content-type": content_type}, body, 0, len(body))])
    if related.name != "multipart/related":
        raise Unreadable(f"{shown(related.name)} is not a supported media type", Refusal.MEDIA_TYPE)
    boundary = related.parameters.get("boundary", "")
    if not boundary or not boundary.isascii():
        raise Unreadable("Content-Type has no usable boundary", Refusal.PACKAGE)
    package = Package([])
    try:
        package.parts.extend(_split(body, boundary.encode("ascii")))
        if "start" in related.parameters:
            _move_root_first(package, related.parameters["start"])
    except Unreadable as problem:
        if not package.parts:
            raise
        package.problem = problem
    return package


def _split(body: bytes, boundary: bytes) -> Iterator[Part]:
    line_feed = -1  # of the delimiter line before
    for at, next_line_feed, closing in _delimiters(body, b"--" + boundary):
        if line_feed >= 0:
            yield _part(body, line_feed, at)
        elif closing:
            raise Unreadable("the multipart body has no part", Refusal.PACKAGE)
        if closing:
            return
        line_feed = next_line_feed
    if line_feed < 0:
        raise Unreadable(
            "the boundary given in Content-Type does not occur in the body", Refusal.PACKAGE
        )
    raise Unreadable(
        "the closing boundary is missing: the message is truncated", Refusal.INCOMPLETE
    )


def _delimiters(body: bytes, mark: bytes) -> Iterator[tuple[int, int, bool]]:
    """Find the delimiter lines. For each: the offset of the line, of its line feed, and whether it
    closes.

    A bare line feed counts as a line break, because some senders end the document with one and
    leave out the CRLF before the delimiter.
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
    raise Unreadable(f"the multipart body has more than {PART_LIMIT} parts", Refusal.PACKAGE)


def _line_beginning(body: bytes, mark: bytes, since: int) -> int:
    found = body.find(b"\n" + mark, since)
    return found + 1 if found >= 0 else -1


def _part(body: bytes, line_feed: int, delimiter: int) -> Part:
    limit = min(delimiter, line_feed + PART_HEADER_LIMIT)
    crlf = body.find(b"\n\r\n", line_feed, limit)
    bare = body.find(b"\n\n", line_feed, limit if crlf < 0 else crlf)
    if crlf < 0 and bare < 0:
        raise Unreadable(
            f"a part has no end of headers within {PART_HEADER_LIMIT} bytes", Refusal.PACKAGE
        )
    headers_end, start = (bare, bare + 2) if bare >= 0 else (crlf, crlf + 3)
    end = delimiter - 1
    if body[end - 1 : end] == b"\r" and body[line_feed - 1 : line_feed] == b"\r":
        end -= 1  # a payload may end in CR where the package's line breaks are bare
    return Part(_headers(body[line_feed + 1 : headers_end]), body, start, max(start, end))


def _headers(block: bytes) -> dict[str, str]:
    """Return the headers that we use. Others are ignored, whatever is in them."""
    text = _FOLD.sub(" ", _decoded(block))
    headers: dict[str, str] = {}
    for line in text.split("\n") if text.strip() else ():
        name, colon, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        exact = value.partition(";")[0] if name == "content-type" else value
        if not colon or not name or (name in _DECIDING and has_control(exact)):
            raise Unreadable(f"{shown(line)} is not a MIME header", Refusal.PACKAGE)
        if name in _DECIDING and headers.get(name, value) != value:
            raise Unreadable(f"a part has the header {name} twice", Refusal.PACKAGE)
        if name in _READ:
            headers.setdefault(name, value)
    return headers


def _decoded(block: bytes) -> str:
    try:
        return block.decode("utf-8")
    except UnicodeDecodeError:
        return block.decode("latin-1")


def _move_root_first(package: Package, start: str) -> None:
    name = _bare(start)
    if not name:
        package.notes.append("start is empty: the first part is taken for the root")
        return
    by_id = {part.content_id: part for part in reversed(package.parts)}
    root = by_id.get(name)
    if root is None:
        named = {unquote(one): part for one, part in by_id.items() if one}
        root = named.get(_decoded_start(name))
        if root is None:
            raise Unreadable(
                f"no part has the Content-ID {shown(name)} named by start", Refusal.PACKAGE
            )
        package.notes.append(f"start is {shown(start)}: taken for {shown(root.content_id)}")
    package.parts.remove(root)
    package.parts.insert(0, root)


def _decoded_start(name: str) -> str:
    """Some senders write it as a reference (RFC 2392)."""
    return _bare(unquote(name[4:] if name[:4].lower() == "cid:" else name))


def _bare(content_id: str) -> str:
    """A comment may follow the brackets."""
    text = content_id.strip()
    if text.startswith("<") and not text.endswith(">"):
        text = text[: text.rfind(">") + 1] or text
    return text.removeprefix("<").removesuffix(">").strip()


def _from_base64(raw: bytes) -> bytes:
    try:
        return binascii.a2b_base64(raw.translate(None, _BASE64_BLANK), strict_mode=True)
    except binascii.Error as error:
        raise ValueError(f"invalid base64: {error}") from None
