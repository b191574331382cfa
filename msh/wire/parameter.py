"""The parameters of a MIME header: comments (RFC 5322 §3.2.2), pieces and charsets (RFC 2231)."""

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

# name=value or name="value", where a backslash quotes the next character.
PARAMETER = re.compile(r';\s*([^\s=;"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))')
_QUOTED_PAIR = re.compile(r"\\(.)")
# What a comment may stand between: text, quoted strings, quoted pairs.
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|\\.|[()]|[^"\\()]+|.', re.DOTALL)
# name*0, name*0* or name*: a piece of a value, or one with a charset and percent-encoding.
_EXTENDED = re.compile(r"([^*]+)\*(?:([0-9]{1,3})(\*)?)?")
_CHARSETS = frozenset({"utf-8", "us-ascii", "iso-8859-1", "iso-8859-15", "windows-1252"})


def without_comments(text: str) -> str:
    """Each comment is a space. What opens none that is closed stays."""
    if "(" not in text:
        return text
    kept: list[str] = []
    depth = opened = 0
    for piece in _PIECE.findall(text):
        if piece == "(":
            if not depth:
                opened = len(kept)
            depth += 1
        kept.append(piece)
        if piece == ")" and depth:
            depth -= 1
            if not depth:
                kept[opened:] = [" "]
    return "".join(kept)


def parameters(text: str) -> Mapping[str, str]:
    """Return the parameters by name in lower case. Of a repeated one the first counts; one in
    pieces, or with a charset, counts before the plain one of the same name (RFC 5987 §4.2), if it
    can be read."""
    plain: dict[str, str] = {}
    pieces: dict[str, dict[int, str]] = {}
    for name, quoted, token in PARAMETER.findall(text):
        value = _QUOTED_PAIR.sub(r"\1", quoted) or token
        extended = _EXTENDED.fullmatch(name) if "*" in name else None
        if extended is None:
            plain.setdefault(name.lower(), value)
            continue
        base, number, encoded = extended.groups()
        marked = "*" if encoded or number is None else " "
        pieces.setdefault(base.lower(), {}).setdefault(int(number or 0), marked + value)
    for base, found in pieces.items():
        joined = _joined(found)
        if joined is not None:
            plain[base] = joined
    return plain


def _joined(pieces: Mapping[int, str]) -> str | None:
    """Pieces from 0 on; a piece that begins with `*` is percent-encoded, in the charset that the
    first of them names."""
    charset = "utf-8"
    content = b""
    for number in range(len(pieces)):
        if number not in pieces:
            return None
        encoded, value = pieces[number][0] == "*", pieces[number][1:]
        if encoded and number == 0 and value.count("'") >= 2:
            charset, _, value = value.split("'", 2)
            charset = charset.lower() or "utf-8"
        if charset not in _CHARSETS:
            return None
        content += unquote_to_bytes(value) if encoded else value.encode(charset, "replace")
    try:
        return content.decode(charset)
    except UnicodeDecodeError:
        return None
