"""Foreign bytes as text that a person can read. What is shown is not what is stored: see there."""

import codecs

from lxml import etree

from . import mime
from .document import MARKUP_LIMIT, hardened, too_deep

_PARSER = hardened(drops_remarks=False)


def as_text(content_type: str, content: bytes, limit: int) -> str | None:
    """The first `limit` bytes in the charset that the content type names, UTF-8 without; None if
    they are no text in it."""
    charset = mime.media_type(content_type).parameters.get("charset", "utf-8")
    try:
        decoder = codecs.getincrementaldecoder(charset)()
        text = decoder.decode(content[:limit], final=len(content) <= limit)
    except (LookupError, ValueError):  # no such charset; UnicodeDecodeError
        return None
    return None if not isinstance(text, str) or "\0" in text else text


def indented(content: bytes) -> str | None:
    """The same XML with one element a line; None for what is not XML in UTF-8 without DOCTYPE, or
    more of it than time and memory are worth."""
    if b"<!DOCTYPE" in content or content.count(b"<") + content.count(b"=") > MARKUP_LIMIT:
        return None
    try:
        root = etree.fromstring(content, _PARSER)
    except etree.XMLSyntaxError:
        return None
    if too_deep(root):
        return None
    return str(etree.tostring(root.getroottree(), pretty_print=True, encoding="unicode"))
