"""The flight of a message as it is now: it is read, and nothing is locked."""

from collections.abc import Iterable
from typing import cast

from msh.models import OutboundMessage
from msh.protocol.flight import Flight
from msh.store.flights.locked_flight import read_flights


def flight_of(message: OutboundMessage) -> Flight | None:
    """As an event would find it, nothing being locked; None for a message that has no flight and
    never had one. It is read once for this `message`. Raises UnreadableTermsError."""
    if _READ not in vars(message):
        with_flights([message])
    return cast("Flight | None", vars(message)[_READ])


def with_flights(messages: Iterable[OutboundMessage]) -> list[OutboundMessage]:
    """The same messages; `flight_of` them needs no further queries."""
    found = list(messages)
    flights = read_flights([one.pk for one in found if one.flies])
    for one in found:
        vars(one)[_READ] = flights.get(one.pk)
    return found


_READ = "flight_as_read"
