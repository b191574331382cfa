"""A payload's label as the file name of its part, and back (EB-051; RFC 6266, RFC 5987)."""

import binascii
import re
from typing import NamedTuple
from urllib.parse import quote

from .text import prose

FILE_NAME_LIMIT = 255
"""Characters."""

_SUFFIX_LIMIT = 20
# What RFC 5987 leaves as it is in an extended value, besides letters and digits.
_ATTRIBUTE = "!#$&+.^_`|~-"
# In a quoted string; `%` is read as an escape by some.
_UNUSUAL = re.compile(r"[^ !#$&-\[\]-~]")
_PIECE = re.compile(r"(?:%[0-9A-F]{2}|[^%]){1,20}")
# =?charset?B?...?=, as mail programs put names into plain parameters (RFC 2047).
_WORD = re.compile(r"=\?(utf-8|iso-8859-1|windows-1252)\?([bq])\?([^?\s]*)\?=", re.IGNORECASE)
_BETWEEN_WORDS = re.compile(r"(?<=\?=)\s+(?==\?)")


class FileName(NamedTuple):
    """`shortened`: it came longer."""

    text: str
    shortened: bool = False


def file_name(came: str) -> FileName:
    """A name as a part has it, without path and control characters, 255 characters at most."""
    text = _BETWEEN_WORDS.sub("", came) if "=?" in came else came
    text = prose(_WORD.sub(_decoded, text))
    text = prose(text[max(text.rfind("/"), text.rfind("\\")) + 1 :])
    text = "" if text in (".", "..") else text
    if len(text) <= FILE_NAME_LIMIT:
        return FileName(text)
    stem, dot, suffix = text.rpartition(".")
    kept = dot + suffix if stem and len(suffix) <= _SUFFIX_LIMIT else ""
    return FileName(text[: FILE_NAME_LIMIT - len(kept)] + kept, shortened=True)


def _decoded(word: re.Match[str]) -> str:
    charset, encoding, text = word.groups()
    try:
        if encoding in "bB":
            return binascii.a2b_base64(text).decode(charset)
        return binascii.a2b_qp(text, header=True).decode(charset)
    except ValueError:
        return word[0]


def disposition(label: str, *, in_lines: bool = False) -> str:
    """The header line that gives a part this name, with an ASCII form for those who read no other;
    "" for a label that says nothing. `in_lines`: folded, since mail has lines of 998 characters."""
    name = file_name(re.sub(r"[/\\]", "_", label)).text
    if not name:
        return ""
    plain = _UNUSUAL.sub("_", name)
    written = [f'filename="{plain}"']
    if plain != name:
        encoded = quote(name, safe=_ATTRIBUTE)
        pieces = _PIECE.findall(encoded) if in_lines else [encoded]
        marks = [f"*{number}*" for number in range(len(pieces))] if in_lines else ["*"]
        charset = "UTF-8''"
        for mark, piece in zip(marks, pieces, strict=True):
            written.append(f"filename{mark}={charset}{piece}")
            charset = ""
    between = ";\r\n " if in_lines else "; "
    return between.join(("Content-Disposition: attachment", *written)) + "\r\n"
