"""Who did it, and why: for the history."""

from dataclasses import dataclass

from msh.models.history import SYSTEM

__all__ = ["ITSELF", "SYSTEM", "Actor"]


@dataclass(frozen=True, slots=True)
class Actor:
    """A person by user name, or the MSH itself."""

    name: str = SYSTEM
    reason: str = ""


ITSELF = Actor()
