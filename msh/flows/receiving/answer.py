"""The answer to a request of a partner."""

from dataclasses import dataclass

from msh.wire.dialect import Entity


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, one line that says why, if there is something to say, and what the dialect puts
    into the body. `wait`: the request may be sent again after so many seconds."""

    status: int
    reason: str = ""
    entity: Entity | None = None
    wait: int | None = None


TAKEN = 204
