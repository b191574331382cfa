"""The declaration of an operator's action. The actions are in `link_actions.py`,
`conversation_actions.py` and `actions.py`, each declared once. The commands, the views of the API
with their forms, and the dialogs of the console are made from these declarations; a class is
written beside them only for an action that needs more."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from msh.protocol import sequence
from msh.protocol.events import SenderEvent
from msh.protocol.four_eyes import Verb
from msh.protocol.kinds import Verdict
from msh.store.history import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An input of the operator beside the reason, or a precondition: something that was shown and
    must not have changed. `name`: of the flow's parameter, and of the field of the API. `help`: a
    sentence; `label`: of the field in a dialog, if it has one. A number has `minimum` and
    `maximum`."""

    name: str
    help: str
    label: str = ""
    kind: type[str | int | bool | datetime | UUID | StrEnum] = str
    required: bool = True
    minimum: int | None = None
    maximum: int | None = None
    option: str = ""
    """The option of the command, if it is not the name."""

    @property
    def choices(self) -> Sequence[str]:
        return [one.value for one in self.kind] if issubclass(self.kind, StrEnum) else ()


@dataclass(frozen=True, slots=True)
class Subject:
    """The object of an action. `noun`: what a page calls it, before its name. `name` and `parts`,
    of a row: its name, and what the flow takes for it."""

    noun: str
    name: Callable[[Any], object]
    parts: Callable[[Any], Sequence[Any]]

    def name_of(self, row: Any) -> str:
        return f"{self.noun} {self.name(row)}" if self.noun else ""


def _itself(row: Any) -> Sequence[Any]:
    return (row,)


LINK = Subject("Partner", lambda row: row.partner, lambda row: (row.partner,))
MESSAGE = Subject("Message", lambda row: row, _itself)
CONVERSATION = Subject(
    "Conversation", lambda row: row, lambda row: (row.agreement, row.conversation_id)
)
REFUSAL = Subject("", str, lambda row: (row.link.partner, row.ref_to_message_id))
PAGE = Subject("", str, _itself)
"""The row whose page it is; nobody has to be told which one."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an action: what was done and what happens next, in words without a full stop,
    and as values for programs. `returned`: what the flow returned."""

    text: str
    facts: Mapping[str, object]
    returned: Any = None

    @property
    def sentence(self) -> str:
        return self.said_of("")

    def said_of(self, subject: object) -> str:
        """With the name of what it was done to, unless this is empty: the operator sees it."""
        text = f"{subject}: {self.text}" if subject else f"{self.text[:1].upper()}{self.text[1:]}"
        return text if text.endswith(".") else f"{text}."


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAction:
    """Something that an operator can do to one row. A user needs all `permissions`.

    `name` has underscores; addresses of the API and commands have hyphens instead. `summary` is
    what the command or the API says of it, in one sentence; `effect` what a dialog says before it
    is done, with {partner} for the name of the row's partner. `done` says afterwards what was done,
    with {fact} for what `facts` found.

    `flow` takes what `subject` says, `actor`, and the parameters by name. It raises NotPossible
    where the action makes no sense now, and returns something with a `text` of what happens next,
    or nothing of this kind. `facts`: of what it returned, of what it was done to, and of the
    parameters; of a dataclass its fields. `why_not` says of a row why the action is not offered, as
    a clause with a full stop; empty if it is.
    """

    name: str
    title: str
    summary: str = ""
    effect: str = ""
    done: str = ""
    permissions: tuple[str, ...]
    subject: Subject = PAGE
    flow: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
    facts: Callable[[Any, Any, Mapping[str, Any]], Mapping[str, object]] | None = None
    why_not: Callable[[Any], str] | None = None
    irreversible: bool = False
    second_person: Verb | None = None
    """The verb that the rules of MSH_SECOND_PERSON name for it."""
    of_numbers: bool = False
    """Only links whose messages have sequence numbers have it."""

    @property
    def hyphenated(self) -> str:
        return self.name.replace("_", "-")

    def do(self, *subject: Any, actor: Actor, **parameters: Any) -> Done:
        """Raises NotPossible, and SecondPersonNeeded."""
        returned = self.flow(*subject, actor=actor, **parameters)
        facts: dict[str, object] = {}
        if is_dataclass(returned):
            names = (one.name for one in fields(returned) if one.name != "text")
            facts |= {name: getattr(returned, name) for name in names}
        if self.facts is not None:
            facts |= self.facts(returned, subject[0], parameters)
        text, then = self.done.format(**facts).strip(), getattr(returned, "text", "")
        parts = [text, f"{then[:1].upper()}{then[1:]}"] if text and then else [text or then]
        return Done(". ".join(parts), facts, returned)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAction(OperatorAction):
    """One event on the link to a partner: the sender's table says in which states it may be."""

    event: SenderEvent


# Parameters of several actions


def number(name: str, help_text: str, label: str, first: int, last: int) -> Parameter:
    return Parameter(name=name, help=help_text, label=label, kind=int, minimum=first, maximum=last)


LAST = number(
    "last",
    "The last number that was used; the next one is the following.",
    "Last number",
    sequence.FIRST,
    sequence.LAST,
)
VERDICT = Parameter(
    name="verdict",
    help="If a copy may have been sent: did the partner receive it? unknown starts the numbers"
    " again at 1.",
    kind=Verdict,
    required=False,
)
IF_MESSAGE = Parameter(
    name="if_message",
    help='Precondition: this message is in flight (`in_flight` of the link); "": none is.',
    required=False,
)
IF_SUSPENDED_SINCE = Parameter(
    name="if_suspended_since",
    help="Precondition: the link is suspended since this time (`suspended_since`).",
    kind=datetime,
    required=False,
)
CONFIRMATION = Parameter(
    name="confirmation",
    help="A UUID of yours: sent again, the answer is the job it has begun.",
    kind=UUID,
    required=False,
)
