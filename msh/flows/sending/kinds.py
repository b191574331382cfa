"""The kinds of what is sent to partners, and what the sending loop asks of each.

There are four. A *lane* sends the reliable messages of the draft to a partner, one at a time; a
*flight* is a reliable message of ebMS 2.0, and several may be on their way; a *BestEffort* message
is sent once, beside both; a *signal* is an Acknowledgement or an Error of ours. The loop treats
them alike. In one transaction of a round it

1. locks the rows of what has ended, of what a wake-up has named, and of what a poll finds due,
2. has each kind *record* how POSTs have ended,
3. has each kind *claim* what is due: end waits, and compose the jobs of what may leave,
4. writes and commits; only then the carrier gets the jobs.

If that raises an error, the same is done one by one: each kind divides what has ended, and what is
due, into *units*. A unit is recorded or claimed in a transaction of its own, and the one that
raises the error again is isolated.

A kind is a module with the functions of `Kind`. The key of each job is a *copy*, and its class says
which kind records how the POST ended: `sending_loop.py` has the table.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from msh.flows.send_budget import SendBudget
from msh.protocol.attempt import AttemptResult
from msh.protocol.events import AckReceived, ErrorReceived
from msh.store.sending.polling import Slots
from msh.transport.job import Job


@dataclass(frozen=True, slots=True)
class LaneCopy:
    """A copy of a reliable message of the draft. `key` is the row id of the message."""

    key: int
    message_id: str
    partner_id: int
    attempt: int
    writes_link: ClassVar[bool] = True
    """How its POST ended is recorded under the lock of the link."""


@dataclass(frozen=True, slots=True)
class SettledCopy(LaneCopy):
    """A copy whose message is complete: it is recorded without a kind that it was transmitted."""

    writes_link: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class FlightCopy:
    """A copy of a reliable message of ebMS 2.0. `attempt` is 0 for a BestEffort message, of which
    the answer alone is recorded so."""

    key: int
    message_id: str
    partner_id: int
    agreement_id: int
    attempt: int
    writes_link: ClassVar[bool] = True


Answer = AckReceived | ErrorReceived


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """How the POST of a copy ended; and, once it is read, what the partner has answered on its
    connection: events of the flight, or a note why the answer counts for nothing. `refused`: it is
    about this message, and wrong."""

    copy: Any
    result: AttemptResult
    answers: tuple[Answer, ...] = ()
    note: str = ""
    refused: bool = False

    def is_of(self, partners: Container[int]) -> bool:
        """Whether it is recorded under the lock of the link to one of these."""
        return self.copy.writes_link and self.copy.partner_id in partners


def attempts_of(ended: Iterable[Ended]) -> list[tuple[int, int, AttemptResult]]:
    """Row id of the message, number and result of each attempt of a lane or of flights."""
    return [(one.copy.key, one.copy.attempt, one.result) for one in ended]


@dataclass(frozen=True, slots=True)
class Unit:
    """What one transaction records or claims when a round is done one by one. `lock` locks its rows
    and returns the work; `isolate` is told an error, and sees to it that it is not met again."""

    name: str
    lock: Callable[[], Any]
    isolate: Callable[[str], None]
    ended: Sequence[Ended] = ()
    link: int | None = None
    """The partner whose link is locked. If it cannot be had, other units of it are left alone."""


Work_contra = TypeVar("Work_contra", contravariant=True)
"""The unit of work with the rows that a transaction has locked."""


class Kind(Protocol[Work_contra]):
    """What the sending loop asks of a kind."""

    def record(self, work: Work_contra, /, ended: Sequence[Ended]) -> None:
        """Step the rows by how these POSTs ended."""

    def claim(self, work: Work_contra, /, budget: SendBudget) -> list[Job]:
        """End the waits that are over, and claim as much as the budget has slots for. Returns the
        jobs to be given to the carrier after the commit. What cannot be composed is given up here,
        and stops no other."""

    def units_of_outcomes(self, ended: Sequence[Ended], /) -> Iterable[Unit]:
        """The units that record these."""

    def units_of_poll(self, slots: Slots, /) -> Iterable[Unit]:
        """The units that claim what a poll finds due. What cannot be looked for is left out."""
