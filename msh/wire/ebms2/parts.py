"""The payload parts of a package, against the Manifest of its envelope."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from msh.protocol.ebms.encryption import XENC
from msh.protocol.ebms.message import Reference
from msh.protocol.ebms.vocabulary import ErrorCode, Stage
from msh.protocol.message import Payload
from msh.wire import mime
from msh.wire.text import has_control, shown

from .elements import Findings

_LOCATION_LIMIT = 300  # characters of a Content-ID, before it is quoted


_XENC = XENC.encode()
_ENCRYPTED_TYPE = "application/xenc+xml"
_LOOKED_AT = 8 * 1024  # bytes
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# What may stand before the root element: a byte order mark, the declaration, comments, a DOCTYPE.
# Matched one by one: as alternatives that repeat, a few blanks would be tried in all ways to divide
# them.
_BEFORE_ROOT = re.compile(
    rb"\xef\xbb\xbf|\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL
)
_ENCRYPTED = re.compile(rb"<(?:[\w.-]+:)?EncryptedData[\s/>]")


@dataclass(frozen=True, slots=True)
class Taken:
    """Payloads, and what a digest of them is made of: of a part that cannot be decoded the bytes
    as they came. Types do not count: a gateway may add a parameter. `encrypted`: the Content-IDs
    of those that are an EncryptedData."""

    payloads: tuple[Payload, ...]
    contents: tuple[bytes, ...]
    encrypted: frozenset[str]


class Parts:
    """References and Content-IDs are compared after decoding (RFC 2392), case as it is."""

    def __init__(self, parts: Sequence[mime.Part], findings: Findings) -> None:
        self._findings = findings
        self._left: dict[str, mime.Part] = {}
        self._nameless: set[str] = set()  # what we call parts that have no name of their own
        self._payloads: list[Payload] = []
        self._contents: list[bytes] = []
        self._encrypted: set[str] = set()
        names = {unquote(parts[0].content_id)}
        for position, part in enumerate(parts[1:], 1):
            name = _name(part)
            content_id = name or f"part-{position}"
            if not name:
                self._nameless.add(content_id)
            if content_id in names:
                self._problem("EB-013", _location(content_id), "names two parts")
            else:
                names.add(content_id)
                self._left[content_id] = part

    def check(self) -> None:
        """Report what cannot be decoded, of a message without a usable header."""
        for content_id, part in self._left.items():
            self._add(content_id, part, "")

    def take(self, references: Sequence[Reference]) -> Taken:
        """Return the payloads in the order of the Manifest; parts that it does not name come last
        (EB-048)."""
        seen: set[str] = set()
        for reference in references:
            content_id = reference.content_id
            if not reference.is_cid:
                self._findings.notes.append(f"{shown(reference.href)} is not fetched")
            elif content_id in seen:
                self._findings.notes.append(f"the Manifest names {shown(content_id)} twice")
            elif content_id not in self._left or content_id in self._nameless:
                sentence = "is in the Manifest, but there is no such part"
                self._problem("EB-047", reference.href, sentence, stage=Stage.MANIFEST)
            else:
                self._add(content_id, self._left.pop(content_id), reference.description)
            seen.add(content_id)
        without_scheme = {one.href for one in references if not one.is_cid}
        for content_id, part in self._left.items():
            sentence = "is not named in the Manifest"
            if content_id in without_scheme:
                sentence += f": its Reference {shown(content_id)} does not begin with cid:"
            location = _location(content_id)
            self._problem("EB-048", location, sentence, stage=Stage.MANIFEST, waivable=True)
            self._add(content_id, part, "")
        encrypted = frozenset(self._encrypted)
        return Taken(tuple(self._payloads), tuple(self._contents), encrypted)

    def _add(self, content_id: str, part: mime.Part, description: str) -> None:
        content_type = mime.fitting_type(part.content_type)
        if content_type != part.content_type:
            self._shortened(content_id, "Content-Type", part.content_type)
        label = part.file_name
        if label.shortened:
            self._shortened(content_id, "file name", label.text)
        try:
            content = part.content()
        except ValueError as error:
            self._problem("EB-008", _location(content_id), f"cannot be decoded: {error}")
            self._contents.append(part.body[part.start : part.end])
        else:
            self._contents.append(content)
            if is_encrypted(part.content_type, content):
                self._encrypted.add(content_id)
                self._report_encrypted(content_id)
            self._payloads.append(
                Payload(content, content_type, content_id, label.text, description)
            )

    def _shortened(self, content_id: str, what: str, value: str) -> None:
        note = f"the {what} of {shown(content_id)} is shortened: {shown(value)}"
        self._findings.notes.append(note)

    def _report_encrypted(self, content_id: str) -> None:
        """Report an encrypted payload as a defect: the application would get cipher text, and the
        sender an Acknowledgment of it."""
        self._findings.add(
            "EB-185",
            ErrorCode.SECURITY_FAILURE,
            _location(content_id),
            "is encrypted: the agreement does not leave it to the application to decrypt it",
            stage=Stage.SECURITY,
            waivable=True,
        )

    def _problem(
        self,
        rule: str,
        location: str,
        sentence: str,
        *,
        stage: Stage = Stage.MIME,
        waivable: bool = False,
    ) -> None:
        code = ErrorCode.MIME_PROBLEM
        self._findings.add(rule, code, location, sentence, stage=stage, waivable=waivable)


def is_encrypted(content_type: str, content: bytes) -> bool:
    """Whether a payload is an xenc:EncryptedData, as far as its type or its root element says."""
    if mime.media_type(content_type).name == _ENCRYPTED_TYPE:
        return True
    begin = content[:_LOOKED_AT]
    if begin[:2] in _UTF_16:
        begin = begin.decode("utf-16", "ignore").encode()
    if _XENC not in begin:
        return False
    root = 0
    while before := _BEFORE_ROOT.match(begin, root):
        root = before.end()
    return _ENCRYPTED.match(begin, root) is not None


def _name(part: mime.Part) -> str:
    """Return the name of a payload; empty if it cannot be stored."""
    content_id = unquote(part.content_id)
    return "" if has_control(content_id) else content_id


def _location(content_id: str) -> str:
    return f"cid:{quote(content_id[:_LOCATION_LIMIT], safe='@')}"
