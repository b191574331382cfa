"""Reading one element of the dialect. What is wrong is collected, so that one answer can name
several errors (EB-056)."""

from collections.abc import Iterator
from datetime import datetime

from lxml.etree import _Element

from msh.protocol.ebms.message import Defect, Error
from msh.protocol.ebms.vocabulary import ErrorCode, Stage
from msh.wire.text import prose, shown, trimmed
from msh.wire.values import VALUE_LIMIT, Problem, checked, prose_of, text_of

from .instants import read_instant
from .names import VERSION, eb, soap

_BOOLEAN = {"1": True, "true": True, "0": False, "false": False}
_MUST_UNDERSTAND = soap("mustUnderstand")
_TOLERATED_VERSION = "2.1"


class Findings:
    """The defects and notes found in one message."""

    def __init__(self) -> None:
        self.defects: list[Defect] = []
        self.notes: list[str] = []

    def add(
        self,
        rule: str,
        code: str,
        location: str,
        sentence: str,
        *,
        stage: Stage = Stage.HEADER,
        waivable: bool = False,
    ) -> None:
        """`sentence` goes on after the name of the place."""
        error = Error(code, location=location, description=f"{location} {sentence}")
        self.defects.append(Defect(rule, stage, error, waivable))


class Block:
    """An element of the dialect with its place. Reading a value twice would report it twice."""

    def __init__(self, element: _Element, location: str, findings: Findings) -> None:
        self.element = element
        self.location = location
        self.findings = findings
        self._children: dict[object, list[_Element]] | None = None
        """The children by tag, filled when the first one is asked for."""

    def wrong(self, rule: str, code: str, path: str, sentence: str) -> None:
        """`path` goes on after the location of the block, "" for the block itself."""
        place = f"{self.location}/{path}" if path else self.location
        self.findings.add(rule, code, place, sentence)

    def check_frame(self) -> None:
        """The attributes of every block: version and mustUnderstand."""
        version = self.attribute("version", "EB-022")
        if version != VERSION:
            self.findings.add(
                "EB-022",
                ErrorCode.INCONSISTENT,
                f"{self.location}/@eb:version",
                f"is {shown(version)}: it must be {VERSION}",
                waivable=version == _TOLERATED_VERSION,
            )
        if trimmed(self.element.get(_MUST_UNDERSTAND, "1")) not in _BOOLEAN:
            sentence = "must be 0 or 1"
            code = ErrorCode.VALUE_NOT_RECOGNIZED
            self.wrong("EB-021", code, "@SOAP:mustUnderstand", sentence)

    def said(self, name: str) -> str:
        """An attribute for people to read: what is wrong with it makes nothing else wrong."""
        text = prose(self._value(name))
        if len(text) <= VALUE_LIMIT:
            return text
        self.note(f"@eb:{name}", f"is shortened: {shown(text)}")
        return text[:VALUE_LIMIT]

    def attribute(self, name: str, rule: str, *, needed: bool = False) -> str:
        return self._checked(self._value(name), rule, f"@eb:{name}", VALUE_LIMIT, needed=needed)

    def _value(self, name: str) -> str:
        """An attribute, qualified or not (EB-027)."""
        return self.element.get(eb(name)) or self.element.get(name) or ""

    def note(self, path: str, sentence: str) -> None:
        """Note something that was read leniently."""
        self.findings.notes.append(f"{path} {sentence}")

    def boolean(self, name: str, rule: str) -> bool:
        """False if it is missing."""
        value = self.attribute(name, rule)
        if not value:
            self.note(f"@eb:{name}", "is missing: taken for false")
        elif value not in _BOOLEAN:
            self.wrong(
                rule,
                ErrorCode.VALUE_NOT_RECOGNIZED,
                f"@eb:{name}",
                f"is {shown(value)}: it must be true or false",
            )
        return _BOOLEAN.get(value, False)

    def children(self, name: str) -> list[_Element]:
        if self._children is None:
            self._children = {}
            for child in self.element:
                self._children.setdefault(child.tag, []).append(child)
        return self._children.get(eb(name), [])

    def child(self, name: str, rule: str) -> _Element | None:
        """The child of this name, which may stand there once."""
        found = self.children(name)
        if len(found) > 1:
            self.wrong(rule, ErrorCode.INCONSISTENT, f"eb:{name}", "stands there more than once")
        return found[0] if found else None

    def block(self, name: str, rule: str) -> "Block | None":
        """Return the required child as a Block; None, and a defect is noted, if it is missing."""
        element = self.child(name, rule)
        if element is None:
            self.wrong(rule, ErrorCode.VALUE_NOT_RECOGNIZED, f"eb:{name}", "is missing")
            return None
        return Block(element, f"{self.location}/eb:{name}", self.findings)

    def blocks(self, name: str) -> Iterator["Block"]:
        for position, element in enumerate(self.children(name), 1):
            yield Block(element, f"{self.location}/eb:{name}[{position}]", self.findings)

    def text(self, name: str, rule: str, *, needed: bool = False, limit: int = VALUE_LIMIT) -> str:
        element = self.child(name, rule)
        path = f"eb:{name}"
        try:
            value = "" if element is None else text_of(element)
        except Problem as problem:
            self.wrong(rule, problem.code, path, problem.sentence)
            return ""
        return self._checked(value, rule, path, limit, needed=needed)

    def own_text(self, rule: str) -> str:
        """The text of the block itself."""
        try:
            value = text_of(self.element)
        except Problem as problem:
            self.wrong(rule, problem.code, "", problem.sentence)
            return ""
        return self._checked(value, rule, "", VALUE_LIMIT, needed=True)

    def instant(self, name: str, rule: str, *, needed: bool = False) -> datetime | None:
        value = self.text(name, rule, needed=needed)
        if not value:
            return None
        try:
            moment, note = read_instant(value)
        except Problem as problem:
            self.wrong(rule, problem.code, f"eb:{name}", problem.sentence)
            return None
        if note:
            self.note(f"eb:{name}", note)
        return moment

    def description(self) -> str:
        """The first Description that says something; there may be one for each language."""
        return next(filter(None, map(prose_of, self.children("Description"))), "")

    def _checked(self, value: str, rule: str, path: str, limit: int, *, needed: bool) -> str:
        try:
            value = checked(value, limit) if value else ""
        except Problem as problem:
            self.wrong(rule, problem.code, path, problem.sentence)
            return ""
        if needed and not value:
            self.wrong(rule, ErrorCode.VALUE_NOT_RECOGNIZED, path, "is missing or empty")
        return value
