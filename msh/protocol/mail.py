"""The header by which a mail of ours says what it is about: a mail host that returns it returns its
head at least (RFC 3464)."""

from urllib.parse import quote

ABOUT = "X-MSH-MessageId"
ABOUT_LIMIT = 900  # characters: a line has at most 998 bytes
_PRINTABLE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"


def about_header(message_id: str) -> str:
    """The header line, percent-encoded; empty if it would be too long for a mail."""
    quoted = quote(message_id, safe=_PRINTABLE)
    return f"{ABOUT}: {quoted}\r\n" if message_id and len(quoted) <= ABOUT_LIMIT else ""
