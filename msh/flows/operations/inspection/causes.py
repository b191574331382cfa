"""Why something stands still, and what an operator should do about it: the table of `causes.toml`.

A cause is decided by codes alone: the reason of the last attempt, the kind of an incident, the
reason of a refusal. The console, the API (`explanation`), alerts and `manage.py trace` say what it
says.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from django.db.models import Q

from msh.protocol.attempt import AttemptOutcome
from msh.protocol.kinds import IncidentKind
from msh.protocol.reason import Reason, Refusal

from .ways import Standing, filled, words_of

OUTCOMES = {
    AttemptOutcome.TRANSMITTED: "transmitted",
    AttemptOutcome.FAILED: "failed",
    AttemptOutcome.DOUBTED: "unexpected response",
    AttemptOutcome.REFUSED: "refused",
}
"""The outcome of an attempt in words."""


class Help(StrEnum):
    """Remedies, beside a telephone call: actions of a link, by their names, and pages to go to."""

    RESUME = "resume"
    RESYNCHRONISE = "resynchronise"
    PARTNER = "partner"
    CONNECTION = "connection"
    MESSAGE = "message"


@dataclass(frozen=True, slots=True)
class Cause:
    """`template` names actions as `ways.py` says. `runbook` names a page in msh/runbooks/. `helps`:
    first what helps first; *resume* is recommended only where it is the first. `meanwhile`: what to
    do while a link still retries."""

    title: str
    template: str
    runbook: str = ""
    helps: tuple[Help, ...] = (Help.RESUME,)
    meanwhile: str = field(default="", compare=False)
    standing: Standing = field(default=Standing.LINK, compare=False)

    def of(self, standing: Standing) -> "Cause":
        return self if standing is self.standing else replace(self, standing=standing)

    @property
    def text(self) -> str:
        """The advice with marks, to be part of a longer text."""
        return filled(self.template, self.standing)

    @property
    def advice(self) -> str:
        return words_of(self.text)


def _cause(
    title: str,
    text: str,
    runbook: str = "",
    helps: Sequence[str] = ("resume",),
    meanwhile: str = "",
) -> Cause:
    return Cause(title, text, runbook, tuple(map(Help, helps)), meanwhile)


_TABLE = tomllib.loads((Path(__file__).parent / "causes.toml").read_text("utf-8"))
ANSWERS = {Reason(code): _cause(**row) for code, row in _TABLE["answer"].items()}
"""By the reason of the last attempt. Reasons that are not here say nothing about the cause."""
CAUSES: dict[str, Cause] = {kind: _cause(**row) for kind, row in _TABLE["incident"].items()}
"""By kind of incident; of a suspension by an operator, and of an early warning."""
REFUSALS: dict[str, Cause] = {
    Refusal(code): _cause(**row) for code, row in _TABLE["refusal"].items()
}
"""By the reason why a request or mail of a partner was refused before it was a message."""

_OF_THE_ANSWER = {
    IncidentKind.RETRIES_SPENT,
    IncidentKind.REFUSED_BY_PEER,
    IncidentKind.PARTNER_UNREACHABLE,
}
"""Kinds whose cause is what the last answer says; of an Error, if it does not let us send."""
_OF_SENDER = (IncidentKind.ERROR_RECEIVED, Reason.SENDER)
ENDING = {
    IncidentKind.RETRIES_SPENT,
    IncidentKind.REFUSED_BY_PEER,
    IncidentKind.ERROR_RECEIVED,
    IncidentKind.MESSAGE_EXPIRED,
    IncidentKind.ANSWER_REFUSED,
    IncidentKind.PROCESSING_FAILED,
    IncidentKind.CONVERSATION_STOPPED,
    IncidentKind.PARTNER_REFUSES,
    IncidentKind.PARTNER_UNREACHABLE,
    IncidentKind.TRANSIENT_LIMIT,
    IncidentKind.RESYNCHRONISE,
    IncidentKind.DELIVERY_FAILED,
    IncidentKind.DELIVERY_IN_DOUBT,
    IncidentKind.DELIVERY_REJECTED,
    IncidentKind.PREDECESSOR_MISSING,
}
"""Kinds about messages, deliveries or conversations: when none of them stands still, they are
over."""
_OVER = "Nothing of it stands still any more. {Resolve_over}."
ERROR_MESSAGES = {
    IncidentKind.ERROR_RECEIVED,
    IncidentKind.RESYNCHRONISE,
    IncidentKind.TRANSIENT_LIMIT,
}
"""Kinds whose cause is an Error Message of the partner, not the answer to the last copy."""


def cause_of(kind: str, reason: Reason = Reason.NONE, standing: Standing = Standing.LINK) -> Cause:
    """`kind`: an IncidentKind, or OPERATOR. `standing`: what stands still for it."""
    known = CAUSES.get(kind) or Cause(kind, "{Again}.")
    is_of_reason = kind in _OF_THE_ANSWER or (kind, reason) == _OF_SENDER
    found = ANSWERS.get(reason, known) if is_of_reason else known
    if standing is Standing.OVER and kind in ENDING:
        return Cause(found.title, _OVER, found.runbook, (), standing=Standing.OVER)
    return found.of(standing)


def is_retrying(outcome: str, retries_spent: int) -> bool:
    """Whether a message that is not acknowledged is being retried: its last attempt has ended
    without success. After a first copy that was transmitted there is nothing to advise."""
    return outcome != AttemptOutcome.TRANSMITTED or retries_spent > 0


RETRIED = Q(number__gt=1) | ~Q(outcome=AttemptOutcome.TRANSMITTED)
"""The same of attempts of a message that flies: each copy after the first is a retry."""


def retrying(reason: Reason) -> Cause | None:
    """Return the advice for a link that is retrying: mostly only to look for the cause before the
    retries are used up. None if the answer says nothing about the cause. It names pages, but not
    Resume: the link is not suspended."""
    known = ANSWERS.get(reason)
    if known is None or not known.meanwhile:
        return None
    helps = tuple(one for one in known.helps if one in (Help.PARTNER, Help.CONNECTION))
    return Cause(known.title, known.meanwhile, known.runbook, helps)
