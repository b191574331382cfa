"""Header to header document, by the table of fields: strict, nothing our reader would refuse."""

from msh.protocol.message import DocumentReference, Header, Route
from msh.protocol.vocabulary import ErrorCode, MessageType

from .fields import ERROR, HEADER, REFERENCE, ROOT, ROUTING, ROUTING_LIMIT, Kind, Place, Section
from .values import NAMESPACE, VERSION

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
_ROOT_TAG = f'<{ROOT} xmlns="{NAMESPACE}" Version="{VERSION}" MessageType="{{}}">\n'
_INDENT = "  "
_Step = str | tuple[str, str, Place]


def write(header: Header) -> bytes:
    """The header document, UTF-8. Raises ValueError, naming the field, for a header that would
    not be read back as it is."""
    kind = Kind.of(header.message_type, header.semantics)
    _check(header, kind)
    lines = [
        _DECLARATION,
        _ROOT_TAG.format(header.message_type),
        _manifest(header.manifest, kind),
        _section(_HEADER_STEPS, header, kind),
        *(_section(_ROUTING_STEPS, route, kind) for route in header.routing),
        _error(header, kind),
        f"</{ROOT}>\n",
    ]
    return "".join(lines).encode()


def write_route(route: Route, kind: Kind, namespace: str) -> str:
    """One RoutingHeader by itself, wherever it will stand: it names its namespace, or none."""
    element = _section(_ROUTING_STEPS, route, kind).rstrip("\n")
    start = f"<{_ROUTING_TAG}>"
    return element.replace(start, f'<{_ROUTING_TAG} xmlns="{namespace}">', 1)


def _check(header: Header, kind: Kind) -> None:
    if not 1 <= len(header.routing) <= ROUTING_LIMIT:
        raise ValueError(f"a header has 1 to {ROUTING_LIMIT} RoutingHeaders")
    if kind < Kind.RELIABLE and any(each.sequence_number is not None for each in header.routing):
        raise ValueError("only a OnceAndOnlyOnce message has a SequenceNumber")  # D31
    if (header.error is not None) != (header.message_type is MessageType.ERROR):
        raise ValueError("an Error Message, and only that, has an ErrorHeader")
    error = header.error
    if error and error.min_retry_secs is not None and error.code is not ErrorCode.TRANSIENT_ERROR:
        raise ValueError("only a TransientError has MinRetrySecs")


def _manifest(references: tuple[DocumentReference, ...], kind: Kind) -> str:
    if not references:
        return f"{_INDENT}<Manifest/>\n"
    inner = "".join(_section(_REFERENCE_STEPS, each, kind) for each in references)
    return f"{_INDENT}<Manifest>\n{inner}{_INDENT}</Manifest>\n"


def _error(header: Header, kind: Kind) -> str:
    if header.error is None:
        return ""
    inner = _section(_ERROR_STEPS, header.error, kind)
    return f"{_INDENT}<ErrorHeader>\n{inner}{_INDENT}</ErrorHeader>\n"


def _section(steps: tuple[_Step, ...], holder: object, kind: Kind) -> str:
    markup: list[str] = []
    for step in steps:
        if isinstance(step, str):
            markup.append(step)
            continue
        indent, tag, place = step
        value = getattr(holder, place.attribute)
        if not value and place.needed_from is not None and kind >= place.needed_from:
            raise ValueError(f"{place.attribute} is missing")
        try:
            element = place.form.write(tag, value)
        except ValueError as error:
            raise ValueError(f"{place.attribute}: {error}") from None
        if element:
            markup.append(f"{indent}{element}\n")
    return "".join(markup)


def _steps(section: Section) -> tuple[_Step, ...]:
    depth = section.path.count("/") + 1
    steps: list[_Step] = []
    open_tags: list[str] = []

    def indent() -> str:
        return _INDENT * (depth + len(open_tags))

    def close_down_to(parents: list[str]) -> None:
        while open_tags != parents[: len(open_tags)]:
            tag = open_tags.pop()
            steps.append(f"{indent()}</{tag}>\n")

    own = section.path.rpartition("/")[2]
    for place in section.places:
        *between, tag = place.element_path
        parents = [own, *between]
        close_down_to(parents)
        for parent in parents[len(open_tags) :]:
            steps.append(f"{indent()}<{parent}>\n")
            open_tags.append(parent)
        steps.append((indent(), tag, place))
    close_down_to([])
    return tuple(steps)


_HEADER_STEPS = _steps(HEADER)
_ROUTING_STEPS = _steps(ROUTING)
_ROUTING_TAG = ROUTING.path
_REFERENCE_STEPS = _steps(REFERENCE)
_ERROR_STEPS = _steps(ERROR)
