"""The answer of an MSH to an enquiry about a pair (D43)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import sequence


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """The numbers of a pair, as an MSH reports them to the other one.

    `accepted_*` is the last reliable message it accepted from the asker, None and empty before the
    first. `next_number` is that of its next message to the asker, `in_flight_*` the one that
    waits for the asker's Acknowledgement. `known`: of the MessageIds asked about, which it has.
    `withheld`: of those it has, which it does not acknowledge before the next MSH does (D20).
    """

    accepted_number: int | None
    accepted_message_id: str
    next_number: int | None = None
    in_flight_number: int | None = None
    in_flight_message_id: str = ""
    known: Mapping[str, bool] = field(default_factory=dict)
    withheld: tuple[str, ...] = ()

    @property
    def expected(self) -> int:
        if self.accepted_number is None:
            return sequence.FIRST
        return sequence.following(self.accepted_number)

    @property
    def coming(self) -> int | None:
        """The number that it sends next, None where it did not say."""
        return self.next_number if self.in_flight_number is None else self.in_flight_number

    def has(self, message_id: str) -> bool | None:
        if message_id == self.accepted_message_id:
            return True
        return self.known.get(message_id)

    def acknowledges(self, message_id: str) -> bool:
        """Whether it proves by its word what an Acknowledgement of this message would."""
        return self.has(message_id) is True and message_id not in self.withheld


def as_typed(theirs: LinkStatus) -> dict[str, object]:
    """The values that an operator typed in, as JSON has them."""
    return {
        "accepted_number": theirs.accepted_number,
        "accepted_message_id": theirs.accepted_message_id,
        "known": dict(theirs.known),
    }


def of_typed(stored: Mapping[str, Any]) -> LinkStatus:
    return LinkStatus(
        stored["accepted_number"], stored["accepted_message_id"], known=stored["known"]
    )
