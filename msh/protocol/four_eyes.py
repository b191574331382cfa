"""Four eyes: which acts of an operator need a second person, and when one may be done."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from .errors import ProtocolError


class Verb(StrEnum):
    """The acts that may need a second person."""

    UNKNOWN = "unknown"
    """The verdict on a message that is cancelled although the partner may have it."""
    RESET = "reset"
    """Numbers start again."""
    EXPECT = "expect"
    """Missing messages of a partner are given up."""
    REWIND = "rewind"
    """Acknowledged messages are sent again."""
    BULK_CANCEL = "bulk_cancel"
    PRUNE = "prune"
    """To prune by hand. The schedule needs no second person."""


ALL = "all"
Rules = Mapping[Verb, frozenset[str]]
"""The roles whose users need a second person, by verb; no role: everybody."""


@dataclass(frozen=True, slots=True)
class Act:
    """One act, as whoever asks for it has seen it. `parameters` are values of JSON; `facts` are
    the version of the rows that it was decided on, in words."""

    verb: Verb
    name: str
    parameters: Mapping[str, Any]
    facts: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A second person has confirmed this act, and nothing else."""

    act: Act


@dataclass(frozen=True, slots=True)
class Alone:
    """The operator goes ahead without a second person, and says why."""

    why: str


Approval = Confirmed | Alone


class Decision(StrEnum):
    GO = "go"
    GO_ALONE = "go alone"
    """It is done without a second person, and operators are notified of that."""
    ASK = "ask"


class NotAllowed(ProtocolError):
    """`str()` is a sentence; nothing has changed."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a second person. `ended` says how it ended, empty while it is open."""

    asked_by: str
    until: datetime
    ended: str = ""


def parse_rules(entries: Iterable[str]) -> Rules:
    """Parse VERB or VERB:ROLE|ROLE; "all" is every verb. Raises ValueError, which names the
    entry."""
    rules: dict[Verb, frozenset[str]] = {}
    for entry in entries:
        name, _, roles = entry.strip().partition(":")
        if name != ALL and name not in set(Verb):
            known = ", ".join([ALL, *Verb])
            raise ValueError(f"{entry!r} is not one of {known}")
        named = frozenset(role.strip() for role in roles.split("|") if role.strip())
        rules |= dict.fromkeys(Verb if name == ALL else [Verb(name)], named)
    return rules


def needs_second_person(rules: Rules, verb: Verb, roles: frozenset[str] | None) -> bool:
    """`roles` of who acts; None for a command, whose user has none: no rule exempts it."""
    if verb not in rules:
        return False
    return roles is None or not rules[verb] or bool(rules[verb] & roles)


def decide(act: Act, approval: Approval | None, *, needed: bool, may_alone: bool) -> Decision:
    """Decide about an act that is about to be written. Raises NotAllowed."""
    if isinstance(approval, Confirmed):
        _require_same(approval.act, act)
        return Decision.GO
    if not needed:
        return Decision.GO
    if approval is None:
        return Decision.ASK
    if not may_alone:
        raise NotAllowed(
            "Nothing was done: you may not go ahead alone. Submit it as a request, and have a"
            " second person confirm it."
        )
    return Decision.GO_ALONE


def require_confirmable(request: Request, person: str, *, permitted: bool, now: datetime) -> None:
    """Raises NotAllowed unless this person may confirm or refuse it now."""
    require_open(request, now)
    if person.casefold() == request.asked_by.casefold():
        raise NotAllowed("This is your own request: somebody else must decide on it.")
    if not permitted:
        raise NotAllowed("You do not have the permissions that the action itself needs.")


def require_open(request: Request, now: datetime) -> None:
    if request.ended:
        raise NotAllowed(f"The request was already {request.ended}.")
    if now >= request.until:
        raise NotAllowed("The request has lapsed: submit it again.")


def _require_same(confirmed: Act, act: Act) -> None:
    if (confirmed.verb, confirmed.name) != (act.verb, act.name):
        raise NotAllowed("Nothing was done: another action was confirmed.")
    if confirmed.parameters != act.parameters:
        raise NotAllowed("Nothing was done: it was confirmed with other parameters.")
    if confirmed.facts != act.facts:
        raise NotAllowed(
            "Nothing was done: the state has changed since the request. It was:"
            f" {confirmed.facts}. It is now: {act.facts}. Submit the request again."
        )
