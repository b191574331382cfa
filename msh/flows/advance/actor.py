"""Who did it, and why: for the history."""

from dataclasses import dataclass

SYSTEM = "msh"


@dataclass(frozen=True, slots=True)
class Actor:
    """A person by user name, or the MSH itself."""

    name: str = SYSTEM
    reason: str = ""


ITSELF = Actor()
