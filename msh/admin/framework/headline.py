"""The head of the page of a message, a delivery or an incident: what it is, its state in words,
what to do, and the buttons for that."""

from collections.abc import Sequence
from dataclasses import dataclass

from .markup import DASH

TEMPLATE = "admin/msh/framework/headline.html"
ALARM = "suspended"
"""The tone of what waits for an operator."""


@dataclass(frozen=True, slots=True)
class Jump:
    """A page that helps, as a button."""

    title: str
    icon: str
    url: str
    recommended: bool
    busy: str = ""
    """The button posts, and says this until there is an answer."""


@dataclass(frozen=True, slots=True)
class Headline:
    """`facts` are labels and values; those without a value are left out. `live`: the page refreshes
    itself."""

    badge: str
    sentence: str
    advice: str = ""
    tone: str = ""
    facts: Sequence[tuple[str, object]] = ()
    live: bool = False

    @property
    def shown_facts(self) -> list[tuple[str, object]]:
        return [(label, value) for label, value in self.facts if value not in ("", None, DASH)]
