"""Header document to Header, by the table of fields: lenient, and exact about what it refuses."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from lxml.etree import _Element

from msh.protocol.errors import Refused, Unreadable
from msh.protocol.message import (
    DocumentReference,
    ErrorReport,
    Field,
    Header,
    PartialHeader,
    Route,
)
from msh.protocol.vocabulary import DeliverySemantics, ErrorCode, MessageType, Severity
from msh.wire import document
from msh.wire.mime import PART_LIMIT
from msh.wire.text import shown
from msh.wire.values import Problem

from .fields import (
    ERROR,
    HEADER,
    REFERENCE,
    ROOT,
    ROUTING,
    ROUTING_LIMIT,
    Kind,
    Place,
    Section,
    locate,
)
from .values import MESSAGE_ID, TEXT, Form, children, known_code, named, read_message_type

_Branch = dict[object, "Place | _Branch"]


@dataclass(frozen=True, slots=True)
class HeaderReading:
    """A header, and the canonical XML of what must be equal in every copy of it: Manifest and
    Header without TimeStamp (D45)."""

    header: Header
    canonical: tuple[bytes, bytes]


def read(header_document: bytes) -> HeaderReading:
    """Raises Unreadable if this is no header or its pair cannot be known, else Refused."""
    root = document.parse(header_document)
    if root.tag not in named(ROOT):
        raise Unreadable(f"the document element is {shown(str(root.tag))}: it must be {ROOT}")
    return _Reader(root).read()


@dataclass(slots=True)
class _Found:
    """The elements of one section by attribute, those that stand there once."""

    elements: dict[str, _Element] = field(default_factory=dict)
    repeated: dict[str, Field] = field(default_factory=dict)

    def add(self, place: Place, element: _Element) -> None:
        if place.attribute in self.elements or place.attribute in self.repeated:
            self.elements.pop(place.attribute, None)
            self.repeated[place.attribute] = place.field
        else:
            self.elements[place.attribute] = element

    def collect(self, element: _Element, branch: _Branch) -> "_Found":
        """Add what stands in `element`; unknown elements are left alone."""
        seen: set[int] = set()
        for child in element:
            node = branch.get(child.tag)
            if isinstance(node, Place):
                self.add(node, child)
            elif node is not None:
                if id(node) in seen:
                    self.repeated[shown(str(child.tag))] = Field.MESSAGE
                seen.add(id(node))
                self.collect(child, node)
        return self

    def value(self, place: Place, kind: Kind) -> Any:
        """The value at a place. Raises Problem if it is wrong, or needed and not there."""
        element = self.elements.get(place.attribute)
        try:
            value = None if element is None else place.form.read(element)
        except Problem as problem:
            problem.field = place.field
            raise
        if value is not None:
            return value
        if place.needed_from is not None and kind >= place.needed_from:
            raise Problem(ErrorCode.VALUE_NOT_RECOGNIZED, "is missing or empty", place.field)
        return place.default

    def legible(self, attribute: str, form: Form = TEXT) -> str:
        """A value as far as it can be read, else empty (D52)."""
        element = self.elements.get(attribute)
        try:
            return "" if element is None else form.read(element) or ""
        except Problem:
            return ""


class _Reader:
    """One header document. All of it is looked over before anything is judged, so that a
    refusal can say whose message it refuses, and which."""

    def __init__(self, root: _Element) -> None:
        self.root = root
        self.top: dict[str, list[_Element]] = {tag: [] for tag in _TOP_TAGS}
        for child in root:
            tag = _TOP.get(child.tag)
            if tag is not None:
                self.top[tag].append(child)
        if not 1 <= len(self.top["RoutingHeader"]) <= ROUTING_LIMIT:
            raise Unreadable(f"a header has 1 to {ROUTING_LIMIT} RoutingHeader elements")
        self.routing = [_Found().collect(each, _ROUTING) for each in self.top["RoutingHeader"]]
        self.header = _Found()
        for each in self.top["Header"]:
            self.header.collect(each, _HEADER)
        for each in self.top["ReliableMessagingInfo"]:
            self.header.add(_SEMANTICS, each)  # D46

    def read(self) -> HeaderReading:
        try:
            header = self._header()
        except Problem as problem:
            self._refuse(problem)
        return HeaderReading(header, self._canonical())

    def _header(self) -> Header:
        self._check_repeated()
        message_type = read_message_type(self.root)
        kind = Kind.of(message_type, DeliverySemantics.BEST_EFFORT)
        values = {place.attribute: self.header.value(place, kind) for place in HEADER.places}
        kind = Kind.of(message_type, values["semantics"])
        return Header(
            message_type=message_type,
            manifest=tuple(self._references(kind)),
            routing=tuple(_route(found, kind) for found in self.routing),
            error=self._report() if message_type is MessageType.ERROR else None,
            **values,
        )

    def _check_repeated(self) -> None:
        for tag in ("Manifest", "Header"):
            if len(self.top[tag]) > 1:
                raise Problem(ErrorCode.INCONSISTENT, f"contains more than one {tag}")
        for found in (self.header, *self.routing):
            for name, place in found.repeated.items():
                raise Problem(ErrorCode.INCONSISTENT, f"holds {name} more than once", place)

    def _references(self, kind: Kind) -> Iterator[DocumentReference]:
        elements = [each for manifest in self.top["Manifest"] for each in manifest]
        if len(elements) > PART_LIMIT:
            raise Unreadable(f"the Manifest has more than {PART_LIMIT} entries")
        for element in elements:
            if element.tag in _REFERENCE_TAGS:
                found = _Found().collect(element, _REFERENCE)
                yield DocumentReference(
                    **{each.attribute: found.value(each, kind) for each in REFERENCE.places}
                )

    def _report(self) -> ErrorReport:
        """The gravest of the errors reported. What cannot be read is a HardError (D26)."""
        reports = [
            _error(each) for header in self.top["ErrorHeader"] for each in children(header, "Error")
        ]
        if not reports:
            silence = "the Error Message has no error code"
            return ErrorReport(ErrorCode.UNKNOWN, Severity.HARD_ERROR, description=silence)
        return max(reports, key=lambda report: _GRAVITY[report.severity])

    def _canonical(self) -> tuple[bytes, bytes]:
        timestamp = self.header.elements["timestamp"]
        parent = timestamp.getparent()
        if parent is not None:  # pragma: no branch  it was read below its parent
            parent.remove(timestamp)
        manifest, (header,) = self.top["Manifest"], self.top["Header"]
        return (
            document.canonical(manifest[0]) if manifest else b"",
            document.canonical(header),
        )

    def _refuse(self, problem: Problem) -> NoReturn:
        last = self.routing[-1]
        sender_uri, receiver_uri = last.legible("sender_uri"), last.legible("receiver_uri")
        if not (sender_uri and receiver_uri):
            missing = Field.RECEIVER_URI if sender_uri else Field.SENDER_URI
            raise Unreadable(
                f"{locate(missing)} is missing or unreadable: the message cannot be attributed"
            ) from None
        partial = PartialHeader(
            message_type=self._legible_type(),
            message_id=self.header.legible("message_id", MESSAGE_ID),
            tpa_id=self.header.legible("tpa_id"),
            conversation_id=self.header.legible("conversation_id"),
            sender_uri=sender_uri,
            receiver_uri=receiver_uri,
            sequence_text=last.legible("sequence_number"),
        )
        reason = f"{locate(problem.field)} {problem.sentence}"
        raise Refused(problem.code, problem.field, reason, partial) from None

    def _legible_type(self) -> MessageType | None:
        try:
            return read_message_type(self.root)
        except Problem:
            return None


def _route(found: _Found, kind: Kind) -> Route:
    """SequenceNumber is not even looked at where the message is not reliable (D57)."""
    return Route(
        **{
            place.attribute: found.value(place, kind)
            for place in ROUTING.places
            if place.needed_from is not None and kind >= place.needed_from
        }
    )


def _error(element: _Element) -> ErrorReport:
    found = _Found().collect(element, _ERROR)
    values = {place.attribute: found.value(place, Kind.SIGNAL) for place in ERROR.places}
    code_text = values.pop("code")
    code = known_code(code_text)
    values["severity"] = values["severity"] or code.severity
    known = code is not ErrorCode.UNKNOWN
    return ErrorReport(code=code, code_text="" if known else code_text, **values)


def _branch(section: Section) -> _Branch:
    top: _Branch = {}
    for place in section.places:
        *parents, leaf = place.element_path
        branch = top
        for parent in parents:
            below = branch.get(parent)
            if not isinstance(below, dict):
                below = {}
                branch.update(dict.fromkeys(named(parent), below))
            branch = below
        for spelling in (leaf, *place.also):
            branch.update(dict.fromkeys(named(spelling), place))
    return top


_HEADER = _branch(HEADER)
_ROUTING = _branch(ROUTING)
_REFERENCE = _branch(REFERENCE)
_ERROR = _branch(ERROR)
_SEMANTICS = next(each for each in HEADER.places if each.field is Field.DELIVERY_SEMANTICS)
_REFERENCE_TAGS = named("DocumentReference")
_TOP_TAGS = ("Manifest", "Header", "ReliableMessagingInfo", "RoutingHeader", "ErrorHeader")
_TOP: dict[object, str] = {name: tag for tag in _TOP_TAGS for name in named(tag)}
_GRAVITY = {severity: rank for rank, severity in enumerate(Severity)}
