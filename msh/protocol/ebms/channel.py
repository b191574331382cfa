"""Which channel of an agreement a message has, and why a message that is not listed may not be sent
(EB-201). Of one direction of an agreement at a time.

Services that differ by their type are different Services. A channel without a type takes any, as an
agreement does (EB-034).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from .message import Service
from .vocabulary import SERVICE


class Named(Protocol):
    @property
    def service(self) -> str: ...
    @property
    def action(self) -> str: ...
    @property
    def agreed_type(self) -> str: ...


Some = TypeVar("Some", bound=Named)


@dataclass(frozen=True, slots=True)
class Channel:
    """`terms` are those that differ from the agreement's, by the names of `Agreed`. `agreed_type`
    is the type of its Service, be it its own or the agreement's; "" takes any."""

    service: str
    action: str
    terms: Mapping[str, Any]
    agreed_type: str = ""


@dataclass(frozen=True, slots=True)
class NotListed:
    """`part` is Service or Action, `allowed` are those that are listed in its place."""

    part: str
    allowed: tuple[str, ...]


def channel_of(
    channels: Iterable[Some], service: Service, action: str, usual: str = ""
) -> Some | None:
    """Return the channel of a Service and Action, if they have one: that of this type, else the one
    that takes any, else that of the `usual` type of the agreement, else the first one. What is not
    of its type has its terms where an agreement tolerates it. In SQL: `CHANNEL_OF_MESSAGE`."""
    order = (service.type, "", usual)
    of_it = [one for one in channels if (one.service, one.action) == (service.value, action)]
    return min(
        of_it, key=lambda one: (*order, one.agreed_type).index(one.agreed_type), default=None
    )


def types_listed(channels: Iterable[Named], service: str, action: str) -> tuple[str, ...]:
    """Return the types that this Service has, for this Action."""
    of_it = {one.agreed_type for one in channels if (one.service, one.action) == (service, action)}
    return tuple(sorted(of_it))


def type_meant(types: tuple[str, ...], usual: str) -> str | None:
    """Return the type, of those that are listed, that is meant where none is named: the `usual` one
    of the agreement, else none, else the only one. None if it cannot be told."""
    for one in (usual, ""):
        if one in types:
            return one
    return types[0] if len(types) == 1 else None


def lists_anything(channels: Iterable[Named]) -> bool:
    """Whether they say what may be sent. Those of signals list nothing."""
    return any(one.service != SERVICE for one in channels)


def not_listed(
    channels: Iterable[Named], service: str, action: str, *, lists: bool = False
) -> NotListed | None:
    """Return why this Service and Action may not be sent; None if they may, as all may where
    nothing is listed. `lists`: something is, if not in this direction."""
    listed = {(one.service, one.action) for one in channels if one.service != SERVICE}
    if (service, action) in listed or not (listed or lists):
        return None
    actions = sorted(its for of, its in listed if of == service)
    if actions:
        return NotListed("Action", tuple(actions))
    return NotListed("Service", tuple(sorted({of for of, _ in listed})))
