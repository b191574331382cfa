"""Single values as every dialect reads and writes them: lenient in, strict out.

A reader raises Problem. A writer raises ValueError for a value that its reader would refuse or
read as another.
"""

import re
from datetime import UTC, datetime
from urllib.parse import quote, unquote

from lxml.etree import _Element

from msh.protocol.message import Field
from msh.protocol.vocabulary import ErrorCode

from .text import has_control, prose, shown, trimmed

VALUE_LIMIT = 1024
"""Characters of any value but a MessageId (D44) and prose."""

_CID = "cid:"
_CID_SAFE = "@!$&'()*+,;=:-._~"


class Problem(Exception):
    """Why a value cannot be taken: the code to answer with, a sentence that goes on after the
    name of the element, and the field, which a form leaves to its caller."""

    def __init__(self, code: ErrorCode, sentence: str, field: Field = Field.MESSAGE) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.field = field


def text_of(element: _Element) -> str:
    if len(element):
        raise Problem(ErrorCode.OTHER_XML, "contains an element where only text is allowed")
    return element.text or ""


def prose_of(element: _Element) -> str:
    """All text in `element` for people to read."""
    return prose("".join(str(text) for text in element.itertext()))


def checked(text: str, limit: int) -> str:
    if len(text) <= limit and text.isprintable():
        return text.strip(" ")  # as nearly always: there is no other white space in it
    text = trimmed(text)
    if len(text) > limit:
        raise Problem(
            ErrorCode.VALUE_NOT_RECOGNIZED, f"has {len(text)} characters: at most {limit}"
        )
    if has_control(text):
        raise Problem(ErrorCode.VALUE_NOT_RECOGNIZED, "contains a control character")  # D61
    return text


def strict(text: str, limit: int) -> str:
    if len(text) <= limit and text.isprintable() and text.strip(" ") == text:
        return text
    if len(text) > limit or trimmed(text) != text or has_control(text):
        raise ValueError(f"{text[:60]!r} cannot be sent as a value of at most {limit} characters")
    return text


def instant(text: str, form: re.Pattern[str], named: str) -> datetime:
    """A time in `form`, which people know as `named`; UTC if it names no offset (D32)."""
    try:
        if not form.fullmatch(text):
            raise ValueError
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Problem(ErrorCode.VALUE_NOT_RECOGNIZED, f"is {shown(text)}: not {named}") from None


def in_utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return value.astimezone(UTC)


def content_id_of(reference: str, limit: int = VALUE_LIMIT) -> str:
    """The content id that a reference names, with or without `cid:` (RFC 2392)."""
    text = trimmed(reference)
    if text[: len(_CID)].lower() == _CID:
        text = text[len(_CID) :]
    return checked(unquote(text), limit)


def cid(content_id: str) -> str:
    """The reference to a part."""
    return _CID + quote(strict(content_id, VALUE_LIMIT), safe=_CID_SAFE)
