"""The payload parts of a package, against the Manifest of its envelope."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from msh.protocol.ebms.message import Reference
from msh.protocol.ebms.vocabulary import ErrorCode, Stage
from msh.protocol.message import Payload
from msh.wire import mime
from msh.wire.text import has_control, shown
from msh.wire.values import VALUE_LIMIT

from .elements import Findings


@dataclass(frozen=True, slots=True)
class Taken:
    """Payloads, and what a digest of them is made of: of a part that cannot be decoded the bytes
    as they came. Types do not count: a gateway may add a parameter."""

    payloads: tuple[Payload, ...]
    contents: tuple[bytes, ...]


class Parts:
    """References and Content-IDs are compared after decoding (RFC 2392), case as it is."""

    def __init__(self, parts: Sequence[mime.Part], findings: Findings) -> None:
        self._findings = findings
        self._left: dict[str, mime.Part] = {}
        self._nameless: set[str] = set()  # what we call parts that have no name of their own
        self._payloads: list[Payload] = []
        self._contents: list[bytes] = []
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
        """In the order of the Manifest; what it does not name comes last (EB-048)."""
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
        for content_id, part in self._left.items():
            sentence = "is not named in the Manifest"
            location = _location(content_id)
            self._problem("EB-048", location, sentence, stage=Stage.MANIFEST, waivable=True)
            self._add(content_id, part, "")
        return Taken(tuple(self._payloads), tuple(self._contents))

    def _add(self, content_id: str, part: mime.Part, description: str) -> None:
        if len(part.content_type) > mime.CONTENT_TYPE_LIMIT:
            sentence = f"has a Content-Type of over {mime.CONTENT_TYPE_LIMIT} characters"
            self._problem("EB-010", _location(content_id), sentence)
        try:
            content = part.content()
        except ValueError as error:
            self._problem("EB-008", _location(content_id), f"cannot be decoded: {error}")
            self._contents.append(part.body[part.start : part.end])
        else:
            self._contents.append(content)
            self._payloads.append(
                Payload(content, part.content_type, content_id, description=description)
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


def _name(part: mime.Part) -> str:
    """What a payload can be called; empty for a name that cannot be stored."""
    content_id = unquote(part.content_id)
    usable = len(content_id) <= VALUE_LIMIT and not has_control(content_id)
    return content_id if usable else ""


def _location(content_id: str) -> str:
    return f"cid:{quote(content_id[:VALUE_LIMIT], safe='@')}"
