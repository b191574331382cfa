"""The actions that an advice can name: it names them by the entries of the table of actions, so
that no advice names an action that no page offers.

A text of `causes.py` or `answers.py` has `{again}` where a link is resumed, a held message resumed,
or a failed one submitted again: `Standing` decides. A sentence that names what is not possible for
this standing is left out.
"""

import re
from enum import StrEnum
from functools import cache
from typing import NamedTuple


class Standing(StrEnum):
    """What is stopped, if anything is."""

    LINK = "link"
    """A link is suspended with its message in flight."""
    GATE = "gate"
    """A link is suspended that has many messages under way."""
    HELD = "held"
    """A message is held."""
    FAILED = "failed"
    """A message has failed."""
    STOPS = "stops"
    """A message has failed and stops its conversation: it can be sent again with its number."""
    LAPSED = "lapsed"
    """A message is held or stops its conversation, and no further copy of it may be sent."""
    BROKEN = "broken"
    """A conversation lacks a number that was given up, and can be restarted."""
    OUTSTANDING = "outstanding"
    """The same, but messages of it are outstanding: it cannot be restarted yet."""
    OVER = "over"
    """Nothing stands still."""


class Way(NamedTuple):
    action: str
    """Table and name of its declaration (`acts.py`). Only a page needs that: what explains a
    message does not load what acts on it."""
    words: str
    standings: frozenset[Standing] = frozenset(Standing)
    """Where it is possible."""


_ON_MESSAGE = frozenset({Standing.HELD, Standing.STOPS})
_LINKS = frozenset({Standing.LINK, Standing.GATE})
_CORRECT = "actions.CORRECT"
WAYS: dict[str, tuple[Way, ...]] = {
    "again": (
        Way("link_actions.RESUME", "resume sending", _LINKS),
        Way("actions.RESUME_MESSAGE", "resume the message", _ON_MESSAGE),
        Way("actions.SUBMIT_AGAIN", "submit the message again", frozenset({Standing.FAILED})),
        Way(
            "actions.SUBMIT_AGAIN",
            "submit the message again, with a verdict on this one",
            frozenset({Standing.LAPSED}),
        ),
    ),
    "resuming": (
        Way("link_actions.RESUME", "resuming", _LINKS),
        Way("actions.RESUME_MESSAGE", "resuming", _ON_MESSAGE),
    ),
    "instead": (
        Way(
            _CORRECT,
            "cancel the message in flight and submit a corrected copy",
            frozenset({Standing.LINK}),
        ),
        Way(
            _CORRECT,
            "cancel the message and submit a corrected copy",
            _ON_MESSAGE | {Standing.LAPSED},
        ),
        Way(_CORRECT, "submit a corrected copy", frozenset({Standing.FAILED})),
    ),
    "cancel": (
        Way("link_actions.CANCEL_IN_FLIGHT", "cancel the message", frozenset({Standing.LINK})),
        Way("actions.CANCEL", "cancel the message with a verdict", _ON_MESSAGE | {Standing.LAPSED}),
    ),
    "send_now": (Way("actions.SEND_NOW_MESSAGE", "send it now", frozenset({Standing.HELD})),),
    "resynchronise": (Way("link_actions.RESYNCHRONISE", "resynchronise", _LINKS),),
    "restart": (
        Way(
            "conversation_actions.RESTART_CONVERSATION",
            "restart the conversation",
            frozenset({Standing.BROKEN}),
        ),
    ),
    "resolve": (Way("actions.RESOLVE", "resolve the incident"),),
    "resolve_over": (Way("actions.RESOLVE", "resolve the incident", frozenset({Standing.OVER})),),
    "run_again": (Way("actions.RUN_AGAIN", "run the delivery again"),),
    "mark_completed": (Way("actions.MARK_COMPLETED", "mark the delivery completed"),),
    "park": (Way("actions.PARK", "park the delivery"),),
    "ask_resolver": (Way("actions.ASK_RESOLVER", "ask the resolver"),),
    "allow_reset": (Way("link_actions.ALLOW_RESET", "allow the reset"),),
    "take_back": (Way("actions.TAKE_BACK_REFUSAL", "take back the refusal"),),
    "skip_missing": (Way("conversation_actions.SKIP_MISSING", "skip the missing message"),),
    "drop_held": (Way("conversation_actions.DROP_HELD", "drop the held ones"),),
}
"""By the name in a text."""

_BEGIN, _MIDDLE, _END = "\ue000", "\ue001", "\ue002"  # no text of ours has them
_MARK = re.compile(f"{_BEGIN}([^{_MIDDLE}]*){_MIDDLE}([^{_END}]*){_END}")
_NAME = re.compile(r"\{(\w+)\}")
_SENTENCES = re.compile(r"(?<=\.) ")


@cache
def filled(template: str, standing: Standing) -> str:
    """The sentences that are possible, with marks that `words_of` and `names_of_acts` read."""
    said = (_filled(sentence, standing) for sentence in _SENTENCES.split(template))
    return " ".join(sentence for sentence in said if sentence)


def words_of(text: str) -> str:
    return _MARK.sub(r"\2", text)


def names_of_acts(text: str) -> list[str]:
    """Return the names of the actions in the template, as in `Way`, each once."""
    return list(dict.fromkeys(name for name, _ in _MARK.findall(text)))


def _filled(sentence: str, standing: Standing) -> str:
    """Empty if it names what is not possible."""
    for name in _NAME.findall(sentence):
        if name.lower() not in WAYS:
            continue  # a value that the page fills in
        way = next((way for way in WAYS[name.lower()] if standing in way.standings), None)
        if way is None:
            return ""
        words = f"{way.words[:1].upper()}{way.words[1:]}" if name[0].isupper() else way.words
        mark = f"{_BEGIN}{way.action}{_MIDDLE}{words}{_END}"
        sentence = sentence.replace(f"{{{name}}}", mark, 1)
    return sentence
