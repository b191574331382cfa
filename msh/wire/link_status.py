"""The answer to a link-status enquiry (D43): JSON, written and read by MSHs of this product."""

import json
from typing import TypeGuard

from msh.protocol.errors import Unreadable
from msh.protocol.link_status import LinkStatus
from msh.protocol.message import MESSAGE_ID_LIMIT
from msh.protocol.sequence import FIRST, LAST

from .text import has_control

CONTENT_TYPE = "application/json"


def write(status: LinkStatus) -> bytes:
    return json.dumps(
        {
            "accepted": {
                "sequence_number": status.accepted_number,
                "message_id": status.accepted_message_id,
            },
            "sending": {
                "next_number": status.next_number,
                "in_flight_number": status.in_flight_number,
                "in_flight_message_id": status.in_flight_message_id,
            },
            "known": dict(status.known),
            "withheld": list(status.withheld),
        },
        ensure_ascii=False,
    ).encode()


def read(document: bytes) -> LinkStatus:
    """Raises Unreadable, naming what is wrong."""
    try:
        whole = json.loads(document)
    except (ValueError, RecursionError):
        raise Unreadable(
            "the link status is not JSON: is the peer an MSH of this product?"
        ) from None
    accepted, sending, known = (_object(whole, name) for name in ("accepted", "sending", "known"))
    return LinkStatus(
        accepted_number=_number(accepted, "sequence_number"),
        accepted_message_id=_text(accepted, "message_id"),
        next_number=_number(sending, "next_number"),
        in_flight_number=_number(sending, "in_flight_number"),
        in_flight_message_id=_text(sending, "in_flight_message_id"),
        known={str(name): has is True for name, has in known.items()},
        withheld=_withheld(whole),
    )


def _withheld(whole: dict[str, object]) -> tuple[str, ...]:
    """Absent where the MSH that answers routes nothing."""
    names = whole.get("withheld", [])
    if not isinstance(names, list) or not all(_is_text(name) for name in names):
        raise Unreadable("the link status has a `withheld` that is not a list of MessageIds")
    return tuple(names)


def _object(whole: object, name: str) -> dict[str, object]:
    value = whole.get(name) if isinstance(whole, dict) else None
    if not isinstance(value, dict):
        raise Unreadable(f"the link status has no object {name!r}")
    return value


def _number(holder: dict[str, object], name: str) -> int | None:
    value = holder.get(name)
    if value is None:
        return None
    if type(value) is not int or not FIRST <= value <= LAST:
        raise Unreadable(f"the link status has a {name} that is not a sequence number")
    return value


def _text(holder: dict[str, object], name: str) -> str:
    value = holder.get(name) or ""
    if not _is_text(value) or len(value) > MESSAGE_ID_LIMIT:
        raise Unreadable(f"the link status has a {name} that is not a MessageId")
    return value


def _is_text(value: object) -> TypeGuard[str]:
    """Whether it is text that can be stored: JSON can name a NUL and half a character."""
    return isinstance(value, str) and not has_control(value)
