"""What the declaration of an operator's action says. The actions are in `link_actions.py` and
`actions.py`, each declared once: the console, the API and the commands use these tables.

The console adds what only a dialog has (an icon, a form, what it will do to the row that is shown),
the API a document of the answer, a command its output.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from msh.protocol import sequence
from msh.protocol.events import SenderEvent
from msh.protocol.four_eyes import Verb
from msh.protocol.kinds import Verdict
from msh.store.history import Actor
from msh.store.operations.operator_actions import Switch
from partners.models import Partner

if TYPE_CHECKING:  # it loads what wakes workers
    from msh.flows.operations.change_link import Done, Seen


@dataclass(frozen=True, slots=True)
class Parameter:
    """What an operator has to say besides the reason: `minimum` and `maximum` of a number, or one
    of `choices`."""

    name: str
    help: str
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAction:
    """Something that an operator can do to one row. A user needs all `permissions`.

    `name` has underscores; addresses of the API and commands have hyphens instead. `summary` is
    what the command or the API says of it, in one sentence; `effect` what a dialog says before it
    is done, with {partner} for the name of the row's partner. `done` says afterwards what was done.
    `flow` raises NotPossible where the action makes no sense now.
    """

    name: str
    title: str
    summary: str = ""
    effect: str = ""
    done: str = ""
    permissions: tuple[str, ...]
    flow: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
    irreversible: bool = False
    second_person: Verb | None = None
    """What it is to the rules of MSH_SECOND_PERSON."""
    of_numbers: bool = False
    """Only links whose messages have sequence numbers have it."""

    @property
    def hyphenated(self) -> str:
        return self.name.replace("_", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAction(OperatorAction):
    """One event on the link to a partner: the sender's table says in which states it may be."""

    event: SenderEvent


class LinkFlow(Protocol):
    """Raises NotPossible if the link is no longer as it was `seen`."""

    def __call__(self, partner: Partner, actor: Actor, seen: "Seen" = ..., /) -> "Done": ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLinkAction(LinkAction):
    """It needs nothing but the reason: the API and `LinkCommand` offer it as it is declared."""

    flow: LinkFlow


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchAction(OperatorAction):
    """Turns one switch of a partner on or off."""

    switch: Switch
    on: bool


# Parameters of several actions

_LIMITS = ("1 to 999999999", sequence.FIRST, sequence.LAST)
NUMBER = Parameter("number", *_LIMITS)
LAST = Parameter("last", *_LIMITS)
VERDICT = Parameter(
    "verdict",
    "in flight: did the partner receive it? unknown starts the numbers again at 1",
    choices=tuple(verdict.value for verdict in Verdict),
)
