"""Which channel of an agreement a message has, and why a message that is not listed may not be sent
(EB-201). Of one direction of an agreement at a time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from .vocabulary import SERVICE


class Named(Protocol):
    @property
    def service(self) -> str: ...
    @property
    def action(self) -> str: ...


Some = TypeVar("Some", bound=Named)


@dataclass(frozen=True, slots=True)
class Channel:
    """`terms` are those that differ from the agreement's, by the names of `Agreed`."""

    service: str
    action: str
    terms: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NotListed:
    """`part` is Service or Action, `allowed` are those that are listed in its place."""

    part: str
    allowed: tuple[str, ...]


def channel_of(channels: Iterable[Some], service: str, action: str) -> Some | None:
    """Return the channel of a Service and Action, if they have one."""
    return next((one for one in channels if (one.service, one.action) == (service, action)), None)


def not_listed(channels: Iterable[Named], service: str, action: str) -> NotListed | None:
    """Return why this Service and Action may not be sent; None if they may, as all may where there
    are no channels. Those of signals list nothing."""
    listed = {(one.service, one.action) for one in channels if one.service != SERVICE}
    if not listed or (service, action) in listed:
        return None
    actions = sorted(its for of, its in listed if of == service)
    if actions:
        return NotListed("Action", tuple(actions))
    return NotListed("Service", tuple(sorted({of for of, _ in listed})))
