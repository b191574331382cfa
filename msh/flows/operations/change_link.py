"""Operators' actions on a link: events of the Sender, its switches, its first number."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils.timezone import localtime

from msh.flows.errors import NotPossible
from msh.flows.numbers import has_numbers, require_numbers
from msh.flows.wake_up import WakeUp, wake_up
from msh.protocol import sequence
from msh.protocol.errors import IllegalTransition
from msh.protocol.events import (
    OperatorResumed,
    OperatorSuspended,
    RetriesReset,
    SenderEvent,
    SendNowRequested,
)
from msh.protocol.lane import Lane, LaneState
from msh.store.history import Actor
from msh.store.operations import operator_actions
from msh.store.operations.operator_actions import Switch, open_links, set_switch
from msh.store.sending.links import OutboundLinks
from partners.models import Partner


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an action on a link: its state now, and what happens next, in a few words."""

    state: LaneState
    text: str


def require_as_seen(
    links: OutboundLinks,
    partner: Partner,
    if_message: str | None,
    if_suspended_since: datetime | None,
) -> None:
    """Raises NotPossible if the locked lane of this partner has changed since it was seen: another
    message is in flight, or the suspension is another one. None is anything, a MessageId of "" is
    nothing in flight."""
    locked = links.locked(partner.pk)
    flying, (since, cause, detail, _) = locked.lane.in_flight, locked.suspended
    message_id = flying.message_id if flying else ""
    changes = []
    if if_message not in (None, message_id):
        changes.append(f"message {message_id} is in flight" if flying else "nothing is in flight")
    if if_suspended_since not in (None, since):
        at = f"{localtime(since):%Y-%m-%d %H:%M:%S %Z}" if since else ""
        why = at and f"it is suspended since {at}, {cause}: {detail}"
        changes.append(why or "it is not suspended")
    if changes:
        raise NotPossible(
            f"The link to partner {partner.name} has changed; nothing was done:"
            f" {' and '.join(changes)}."
        )


@dataclass(frozen=True, slots=True)
class LinkChange:
    """One event of the sender on the link to a partner, with who and why. Called, it raises
    NotPossible where the event may not happen: "Cannot `what`: `why_not`"."""

    event: SenderEvent
    what: str
    why_not: str

    def __call__(
        self,
        partner: Partner,
        actor: Actor,
        if_message: str | None = None,
        if_suspended_since: datetime | None = None,
    ) -> Done:
        open_links(partner)
        with transaction.atomic():
            links = OutboundLinks.lock([partner.pk])
            require_as_seen(links, partner, if_message, if_suspended_since)
            before = links.lane(partner.pk)
            try:
                links.step(partner.pk, self.event, actor)
            except IllegalTransition:
                raise NotPossible(
                    f"Cannot {self.what} {partner.name}: {self.why_not} (the link is"
                    f" {before.state}).{_instead(before, self.event)}"
                ) from None
            after = links.lane(partner.pk)
            links.write()
        wake_up(WakeUp.TRANSMIT)
        if isinstance(self.event, OperatorResumed) and not has_numbers(partner):
            return Done(after.state, _AT_ONCE)
        return Done(after.state, _done_text(self.event, before, after))


_AT_ONCE = "messages are sent again, as many at once as the agreements allow"
_NOTHING_WAITS = "no message is waiting for an Acknowledgement"

suspend = LinkChange(OperatorSuspended(), "suspend partner", "it is already suspended")
"""Send nothing more to the partner. The message in flight stays in flight."""
resume = LinkChange(OperatorResumed(), "resume partner", "it is not suspended")
"""Retry counter to zero; the same bytes of the uncompleted message first (000 §2.1.4.3)."""
reset_retries = LinkChange(RetriesReset(), "reset the retries of partner", _NOTHING_WAITS)
"""Retry counter to zero; the deadline stays."""
send_now = LinkChange(SendNowRequested(), "send now to partner", _NOTHING_WAITS)
"""Send the message in flight again at once; spends no retry."""


def _done_text(event: SenderEvent, before: Lane, after: Lane) -> str:
    if isinstance(event, OperatorSuspended):
        return "nothing is sent until it is resumed"
    if isinstance(event, RetriesReset):
        return "the retry counter is 0; the next copy is sent at its scheduled time"
    if isinstance(event, SendNowRequested):
        return "one more copy is sent now and uses no retry"
    if before.in_flight is not None:
        number = before.in_flight.sequence_number
        return f"message {number} is sent again with the same bytes, then the queue"
    late = "the message in flight was acknowledged late and is complete"
    was = late if before.late_ack else "nothing was in flight"
    if after.in_flight is None:
        return f"{was}; the queue is empty"
    return f"{was}; message {after.in_flight.sequence_number}, the first of the queue, is sent now"


def _instead(lane: Lane, event: SenderEvent) -> str:
    if lane.state is LaneState.SUSPENDED and not isinstance(event, OperatorSuspended):
        late = " Its message was acknowledged late." if lane.late_ack else ""
        return f"{late} Resume the link."
    if lane.state is LaneState.WAITING and isinstance(event, OperatorResumed):
        return " If its Acknowledgement does not arrive, reset its retries or send it now."
    return ""


_SWITCHED = {
    (Switch.ACCEPTS, True): "submissions are already accepted",
    (Switch.ACCEPTS, False): "submissions are already refused",
    (Switch.DELIVERS, True): "deliveries are not held",
    (Switch.DELIVERS, False): "deliveries are already held",
}


def switch(partner: Partner, which: Switch, *, on: bool, actor: Actor) -> None:
    with transaction.atomic():
        if not set_switch(partner, which, on=on, actor=actor):
            raise NotPossible(f"Partner {partner.name}: {_SWITCHED[which, on]}.")
    if on and which is Switch.DELIVERS:
        wake_up(WakeUp.DELIVER)


def start_link(partner: Partner, direction: str, last: int, actor: Actor) -> None:
    """Set the last number of a link that was never used (D50): 1 to 999,999,999."""
    require_numbers(partner)
    if not sequence.FIRST <= last <= sequence.LAST:
        raise NotPossible(f"The last number is {sequence.FIRST} to {sequence.LAST}, not {last}.")
    open_links(partner)
    with transaction.atomic():
        if not operator_actions.start_link(partner, direction, last, actor):
            raise NotPossible(
                f"The link {direction} of partner {partner.name} is in use: its numbers cannot be"
                " set."
            )
