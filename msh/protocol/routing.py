"""Reliable routing: what a router does with a message for a party behind another MSH (000 §4.1).

A chain of simple reliable transmissions, each with numbers of its own. A router stores the
message as any Receiver does; what differs is when its Acknowledgement is queued (D20).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from . import effects as do
from . import receiver
from .kinds import IncidentKind, RouteMode
from .lane import LaneState
from .message import Field, Route
from .receiver import Outcome, ReceivingLink
from .uri import normalised
from .vocabulary import ErrorCode

HOP_LIMIT = 16
"""RoutingHeaders that a message may have when it leaves a router."""


@dataclass(frozen=True, slots=True)
class Onward:
    """The way onward, as it is now. `wait`: whole seconds left of a wait that we were asked for.

    `obstacle` is the sentence that says why the message may never be forwarded, "" if it may.
    """

    mode: RouteMode
    state: LaneState = LaneState.IDLE
    wait: int | None = None
    obstacle: str = ""


def obstacle(routing: Sequence[Route], our_uri: str) -> str:
    """Why we as `our_uri` may not forward a message that came by `routing`, "" if we may."""
    ours = {normalised(our_uri), normalised(routing[-1].receiver_uri)}
    if any(normalised(route.sender_uri) in ours for route in routing):
        return (
            f"a loop: {our_uri} has forwarded this message before; correct the routes for its To"
            " party"
        )
    if len(routing) >= HOP_LIMIT:
        return f"the message has {len(routing)} RoutingHeaders: a router sends at most {HOP_LIMIT}"
    return ""


def router_outcome(
    before: ReceivingLink, outcome: Outcome, onward: Onward, message_id: str
) -> Outcome:
    """A Receiver's outcome, of a reliable message or not, as a router's.

    What is refused or known stays as it is. A message that would be accepted is forwarded, or
    refused with nothing stored.
    """
    after, effects = outcome
    accepted = next((effect for effect in effects if isinstance(effect, do.Accept)), None)
    if accepted is None:
        return outcome
    if onward.obstacle:
        return before, undeliverable(message_id, onward.obstacle)
    reliable = accepted.sequence_number is not None
    if reliable and _is_closed(onward):
        return before, (_not_now(onward),)
    withheld = reliable and onward.mode is RouteMode.END_TO_END
    kept = tuple(e for e in effects if not (withheld and isinstance(e, do.QueueAck)))
    return after, (*kept, do.SendOn(withheld))


def undeliverable(message_id: str, why: str) -> tuple[do.ReceiverEffect, ...]:
    return (failure(why), do.OpenIncident(IncidentKind.ROUTE_FAILED, message_id, why))


def failure(why: str) -> do.QueueError:
    return do.QueueError(ErrorCode.DELIVERY_FAILURE, Field.ROUTING, why)


def repeated(link: ReceivingLink, why: str) -> Outcome:
    """A further copy of a message whose Ack is withheld. `why` says why it was never forwarded."""
    if why:
        return link, (failure(why),)
    return link, receiver.withheld()


def _is_closed(onward: Onward) -> bool:
    """Whether new messages are refused for now. A wait that the next MSH asks for is ours in `hop`;
    in `end-to-end` the MSH that sent to us has to wait."""
    if onward.state is LaneState.TRANSIENT:
        return onward.mode is RouteMode.END_TO_END
    return onward.state is LaneState.SUSPENDED


def _not_now(onward: Onward) -> do.QueueError:
    text = f"not stored: forwarding is {onward.state}"
    wait = onward.wait if onward.state is LaneState.TRANSIENT else None
    return do.QueueError(ErrorCode.TRANSIENT_ERROR, Field.ROUTING, text, wait)
