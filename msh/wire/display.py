"""Foreign bytes as text that a person can read. What is shown is not what is stored: see there."""

import codecs
from encodings import normalize_encoding
from encodings.aliases import aliases

from lxml import etree

from . import mime
from .document import MARKUP_LIMIT, declared_charset, hardened, too_deep

_PARSER = hardened(drops_remarks=False)

CHARSETS = frozenset(
    {
        *("ascii", "utf_8", "utf_8_sig", "utf_16", "utf_16_be", "utf_16_le"),
        *("utf_32", "utf_32_be", "utf_32_le", "latin_1"),
        *(f"iso8859_{part}" for part in range(1, 17) if part != 12),
        *(f"cp{page}" for page in (437, 850, 852, 858, 866, 874, *range(1250, 1259))),
        *("koi8_r", "koi8_u", "mac_roman", "tis_620"),
        *("shift_jis", "cp932", "euc_jp", "iso2022_jp", "gb2312", "gbk", "gb18030"),
        *("big5", "big5hkscs", "euc_kr", "cp949"),
    }
)
"""Python's names of codecs that give at most a character for each byte, in linear time. Others
unpack without a limit (bz2) or need time in the square of the length (punycode)."""


def as_text(content_type: str, content: bytes, limit: int) -> str | None:
    """The first `limit` bytes in the charset that the content type names, without one in that which
    an XML document declares, or UTF-8; None if they are no text in it, or it is none that is
    decoded here."""
    media = mime.media_type(content_type)
    declared = declared_charset(content) if media.name.endswith("xml") else ""
    charset = codec_of(media.parameters.get("charset", declared or "utf-8"))
    if charset not in CHARSETS:
        return None
    try:
        decoder = codecs.getincrementaldecoder(charset)()
        text = decoder.decode(content[:limit], final=len(content) <= limit)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def codec_of(charset: str) -> str:
    """Return Python's name of a charset, without importing a codec by a name from outside."""
    name = normalize_encoding(charset).lower()
    return aliases.get(name, name)


def indented(content: bytes) -> str | None:
    """Return the same XML with one element a line. None for anything but XML in UTF-8 without
    DOCTYPE, and for XML that is too large to be worth time and memory."""
    if b"<!DOCTYPE" in content or content.count(b"<") + content.count(b"=") > MARKUP_LIMIT:
        return None
    try:
        root = etree.fromstring(content, _PARSER)
    except etree.XMLSyntaxError:
        return None
    if too_deep(root):
        return None
    return str(etree.tostring(root.getroottree(), pretty_print=True, encoding="unicode"))
