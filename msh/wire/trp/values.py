"""One value each way: element to value, lenient; value to markup, strict.

A reader returns None where the element says nothing, and raises Problem. A writer takes the tag
and the value, returns the element ("" for one to leave out) and raises ValueError for a value
that its reader would refuse or read as another.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from lxml.etree import _Element

from msh.protocol import sequence
from msh.protocol.message import MESSAGE_ID_LIMIT, Field, Party
from msh.protocol.vocabulary import DeliverySemantics, ErrorCode, MessageType, Severity
from msh.wire.text import prose, shown, trimmed
from msh.wire.values import (
    VALUE_LIMIT,
    Problem,
    checked,
    cid,
    content_id_of,
    in_utc,
    instant,
    prose_of,
    strict,
    text_of,
)

NAMESPACE = "http://www.ebxml.org/namespaces/messageHeader"
VERSION = "0.21"

# As many digits as a bigint surely has room for.
_DIGITS = re.compile("[0-9]{1,18}")
# ISO 8601 basic or extended: the back references want the same separator twice or none.
_INSTANT = re.compile(
    r"[0-9]{4}(-?)[0-9]{2}\1[0-9]{2}T[0-9]{2}(:?)[0-9]{2}\2[0-9]{2}"
    r"(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)


@dataclass(frozen=True, slots=True)
class Form:
    """The two ways of one kind of value."""

    read: Callable[[_Element], Any]
    write: Callable[[str, Any], str]


def named(tag: str) -> tuple[str, str]:
    return tag, f"{{{NAMESPACE}}}{tag}"


def children(element: _Element, tag: str) -> Iterator[_Element]:
    return element.iterchildren(*named(tag))


# Text


def _form_of_text(limit: int) -> Form:
    def read(element: _Element) -> str | None:
        return checked(text_of(element), limit) or None

    def write(tag: str, value: str) -> str:
        return f"<{tag}>{escape(strict(value, limit))}</{tag}>" if value else f"<{tag}/>"

    return Form(read, write)


TEXT = _form_of_text(VALUE_LIMIT)
MESSAGE_ID = _form_of_text(MESSAGE_ID_LIMIT)


def _read_prose(element: _Element) -> str | None:
    return prose_of(element) or None


def _write_prose(tag: str, value: str) -> str:
    text = prose(value)
    return f"<{tag}>{escape(text)}</{tag}>" if text else ""


PROSE = Form(_read_prose, _write_prose)


def _write_description(tag: str, value: str) -> str:
    text = prose(value)
    return f'<{tag} xml:lang="en">{escape(text)}</{tag}>' if text else ""


DESCRIPTION = Form(_read_prose, _write_description)


# MessageType, parties, DeliverySemantics

_MESSAGE_TYPES = {str(each): each for each in MessageType} | {
    "Acknowledgment": MessageType.ACKNOWLEDGEMENT  # D37
}


def read_message_type(root: _Element) -> MessageType:
    text = trimmed(root.get("MessageType", ""))
    if not text:
        raise Problem(ErrorCode.VALUE_NOT_RECOGNIZED, "is missing or empty", Field.MESSAGE_TYPE)
    if text not in _MESSAGE_TYPES:
        sentence = f"is {shown(text)}: Normal, Acknowledgement or Error"
        raise Problem(ErrorCode.NOT_SUPPORTED, sentence, Field.MESSAGE_TYPE)
    return _MESSAGE_TYPES[text]


def _read_party(element: _Element) -> Party | None:
    party_id = checked(text_of(element), VALUE_LIMIT)
    context = element.get("context") or element.get("type") or ""
    return Party(party_id, checked(context, VALUE_LIMIT)) if party_id else None


def _write_party(tag: str, value: Party) -> str:
    if not value.party_id:
        raise ValueError("PartyId is missing")
    context = strict(value.context, VALUE_LIMIT)
    attribute = f" context={quoteattr(context)}" if context else ""
    return f"<{tag}{attribute}>{escape(strict(value.party_id, VALUE_LIMIT))}</{tag}>"


PARTY = Form(_read_party, _write_party)


def _read_semantics(element: _Element) -> DeliverySemantics | None:
    """The attribute, as the text of the draft has it, or the child of its fragment (D27)."""
    texts = [text_of(child) for child in children(element, "DeliverySemantics")]
    attribute = element.get("DeliverySemantics")
    if attribute is not None:
        texts.append(attribute)
    values = {trimmed(text) for text in texts}
    if len(values) > 1:
        raise Problem(ErrorCode.INCONSISTENT, "is given twice, with different values")
    value = values.pop() if values else ""
    if not value:
        return None
    try:
        return DeliverySemantics(value)
    except ValueError:
        raise Problem(
            ErrorCode.VALUE_NOT_RECOGNIZED, f"is {shown(value)}: OnceAndOnlyOnce or BestEffort"
        ) from None


def _write_semantics(tag: str, value: DeliverySemantics) -> str:
    return f'<{tag} DeliverySemantics="{value}"/>'


SEMANTICS = Form(_read_semantics, _write_semantics)


# Times and numbers


def _read_instant(element: _Element) -> datetime | None:
    """Basic or extended ISO 8601, to the second or finer; UTC if it names no offset (D32)."""
    text = trimmed(text_of(element))
    if not text:
        return None
    return instant(text, _INSTANT, "CCYYMMDDThhmmss.sssZ")


def _write_instant(tag: str, value: datetime) -> str:
    """CCYYMMDDThhmmss.sssZ, cut to the millisecond."""
    utc = in_utc(value)
    date = f"{utc.year:04}{utc.month:02}{utc.day:02}"
    time = f"{utc.hour:02}{utc.minute:02}{utc.second:02}.{utc.microsecond // 1000:03}"
    return f"<{tag}>{date}T{time}Z</{tag}>"


INSTANT = Form(_read_instant, _write_instant)


def _read_sequence_number(element: _Element) -> int | None:
    text = trimmed(text_of(element))
    if not text:
        return None
    number = sequence.parse(text)
    if number is None:
        sentence = f"is {shown(text)}: 1 to {sequence.LAST} in ASCII digits"
        raise Problem(ErrorCode.VALUE_NOT_RECOGNIZED, sentence)
    return number


def _write_sequence_number(tag: str, value: int | None) -> str:
    if value is None:
        return ""
    if not sequence.FIRST <= value <= sequence.LAST:
        raise ValueError(f"{value} is not within {sequence.FIRST} to {sequence.LAST}")
    return f"<{tag}>{value}</{tag}>"


SEQUENCE_NUMBER = Form(_read_sequence_number, _write_sequence_number)


# Manifest


def _read_content_id(element: _Element) -> str | None:
    return content_id_of(text_of(element)) or None


def _write_content_id(tag: str, value: str) -> str:
    return f"<{tag}>{escape(cid(value))}</{tag}>"


CONTENT_ID = Form(_read_content_id, _write_content_id)


# Error: whatever it says is read as well as can be, for it is never answered (D26).
# 000 §4.2 writes "Transient Error", so blanks inside a word do not count.

_ERROR_CODES = {str(each): each for each in ErrorCode}
_SEVERITIES = {str(each): each for each in Severity}


def _write_word(tag: str, value: str) -> str:
    return f"<{tag}>{value}</{tag}>"


def _read_severity(element: _Element) -> Severity | None:
    return _SEVERITIES.get((_read_prose(element) or "").replace(" ", ""))


CODE = Form(_read_prose, _write_word)
SEVERITY = Form(_read_severity, _write_word)


def known_code(text: str) -> ErrorCode:
    return _ERROR_CODES.get(text.replace(" ", ""), ErrorCode.UNKNOWN)


def _read_seconds(element: _Element) -> int | None:
    text = _read_prose(element) or ""
    return int(text) if _DIGITS.fullmatch(text) else None  # D54


def _write_seconds(tag: str, value: int | None) -> str:
    if value is None:
        return ""
    if value < 0:
        raise ValueError(f"{value} is negative")
    return f"<{tag}>{value}</{tag}>"


SECONDS = Form(_read_seconds, _write_seconds)
