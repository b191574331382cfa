"""Text as every dialect treats it: trimmed values, prose for people, foreign text in reasons."""

import re

_BLANK = " \t\r\n"
_LINE_BREAK = re.compile("\r\n|\r|\n")
# C0 and C1 controls, lone surrogates, and the two characters that XML forbids.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_SHOWN_LIMIT = 60  # characters


def trimmed(text: str) -> str:
    """Line breaks become spaces, then white space is taken off both ends (D61).

    Only XML's own white space: two ids that differ in a no-break space stay two ids.
    """
    if "\n" in text or "\r" in text:
        text = _LINE_BREAK.sub(" ", text)
    return text.strip(_BLANK)


def has_control(text: str) -> bool:
    """Whether `text` contains a control character, or one that XML cannot carry."""
    return not text.isprintable() and _CONTROL.search(text) is not None


def prose(text: str) -> str:
    """`text` for people to read: one line, control characters replaced by spaces."""
    text = trimmed(text)
    return _CONTROL.sub(" ", text).strip(_BLANK) if has_control(text) else text


def shown(text: str) -> str:
    """Foreign text as a reason may quote it: ASCII, one line, cut after 60 characters."""
    cut = text if len(text) <= _SHOWN_LIMIT else text[:_SHOWN_LIMIT] + "..."
    return ascii(cut)
