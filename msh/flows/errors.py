"""Errors of the flows."""

from dataclasses import dataclass

from msh.protocol.four_eyes import Act
from msh.store.history import Actor


class NotPossible(ValueError):
    """The action makes no sense now (D62). `str()` is a sentence; nothing has changed."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An act with what it is about: the link of a partner in a direction, a message of it, or
    nothing of a partner. `about` is the row whose page shows it, by its model and key; `text` says
    what it does."""

    act: Act
    text: str
    partner_id: int | None = None
    direction: str = ""
    message_id: str = ""
    about: str = ""


class SecondPersonNeeded(Exception):
    """The act needs a second person; nothing has changed. Whoever catches it has
    `operations.guard.ask` store the request."""

    def __init__(self, proposal: Proposal, actor: Actor) -> None:
        super().__init__(f"A second person must confirm this: {proposal.text}")
        self.proposal = proposal
        self.actor = actor


class NotYet(Exception):
    """A bulk job has to wait, as `str()` says; nothing has changed."""
