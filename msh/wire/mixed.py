"""multipart/mixed for consumers: payloads as they came, under names that a MIME header can hold.

A partner may name a payload by characters that a header of ours has no form for. It was accepted,
so it has to be delivered: such names are written in ASCII, by RFC 2231 and percent-encoding.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote

from msh.protocol.message import Payload

from .mime import media_type

_WORD = r"[\w!#$&^.+-]+"
# What stands in a header as it is; anything else is written anew or percent-encoded.
_USUAL_TYPE = re.compile(rf"{_WORD}/{_WORD}(?: *;[ -~]*[!-~])?", re.ASCII)
_MEDIA_TYPE = re.compile(f"{_WORD}/{_WORD}", re.ASCII)
_NAME = re.compile(_WORD, re.ASCII)
_PLAIN_ID = re.compile("[!-;=?-~]+")
_VISIBLE = " !#$&'()*+,/:;=?@[]{}|~^`<>\"\\"
_ATTRIBUTE = "!#$&+.^_`|~-"
"""The characters, beside letters and digits, that RFC 2231 does not encode in an extended value."""
UNKNOWN = "application/octet-stream"
NATIVE_TYPE = "X-MSH-Content-Type"
"""The header that has a Content-Type as it came, percent-encoded, where it had to be rewritten."""


def compose_mixed(payloads: Iterable[Payload], boundary: str) -> bytes:
    """The body. Raises ValueError if a payload contains the boundary."""
    mark = boundary.encode("ascii")
    pieces: list[bytes] = []
    for payload in payloads:
        if mark in payload.content:
            raise ValueError(f"part {payload.content_id} contains the boundary {boundary}")
        lines = "".join(f"{name}: {value}\r\n" for name, value in _headers(payload))
        pieces += (b"--%b\r\n%b\r\n" % (mark, lines.encode("ascii")), payload.content, b"\r\n")
    return b"".join((*pieces, b"--%b--\r\n" % mark))


def ascii_type(content_type: str) -> str:
    """A Content-Type as a header can hold it: parameters that are not ASCII by RFC 2231, and
    application/octet-stream for what is no media type."""
    if _USUAL_TYPE.fullmatch(content_type):
        return content_type
    media = media_type(content_type)
    if not _MEDIA_TYPE.fullmatch(media.name):
        return UNKNOWN
    named = ((name, value) for name, value in media.parameters.items() if _NAME.fullmatch(name))
    return "; ".join((media.name, *(_parameter(name, value) for name, value in named)))


def percent_encoded(value: str) -> str:
    """Printable ASCII as it is; else percent-encoded UTF-8, every % of it too."""
    if value.isascii() and value.isprintable() and value == value.strip():
        return value
    return quote(value, safe=_VISIBLE)


def _headers(payload: Payload) -> Iterable[tuple[str, str]]:
    content_id, content_type = payload.content_id, payload.content_type
    is_plain = _PLAIN_ID.fullmatch(content_id)
    yield "Content-ID", f"<{content_id if is_plain else quote(content_id, safe='@!$&*+=~')}>"
    yield "Content-Type", ascii_type(content_type)
    if ascii_type(content_type) != content_type:
        yield NATIVE_TYPE, percent_encoded(content_type)
    yield "Content-Transfer-Encoding", "binary"


def _parameter(name: str, value: str) -> str:
    if value.isascii() and value.isprintable() and not {'"', "\\"} & set(value):
        return f'{name}="{value}"'
    return f"{name}*=UTF-8''{quote(value, safe=_ATTRIBUTE)}"
