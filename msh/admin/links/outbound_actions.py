"""The operator's verbs on a link: when each is offered, what its dialog says, what it calls."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.utils import timezone

from msh.admin.framework.actions import OperatorAction
from msh.admin.framework.time_format import format_time
from msh.flows import operate
from msh.models import Attempt, OutboundLink
from msh.protocol import sender
from msh.protocol.effects import IncidentKind
from msh.protocol.errors import IllegalTransition
from msh.protocol.events import (
    OperatorResumed,
    OperatorSuspended,
    RetriesReset,
    SenderEvent,
    SendNowRequested,
)
from msh.protocol.lane import OPERATOR, LaneState
from msh.store.history import Actor

from .status_text import status_text


class LinkAction(OperatorAction):
    """One event on a lane; the Sender's table says when it may happen."""

    done: ClassVar[str]
    event: ClassVar[SenderEvent]
    flow: ClassVar[Callable[..., operate.Done]]

    def __init_subclass__(cls) -> None:
        cls.permissions = ("msh.view_outboundlink", f"msh.{cls.name}_outboundlink")

    def why_not(self, row: OutboundLink) -> str:
        try:
            sender.step(row.lane, self.event, now=timezone.now())
        except IllegalTransition:
            return f"the link to {row.partner} is {row.state}."
        return ""

    def version(self, row: OutboundLink) -> str:
        """Of the message in flight, and of this suspension: not of a later one, which may have
        another cause."""
        flying = row.in_flight.message_id if row.in_flight else "nothing in flight"
        return f"{flying}, suspended since {row.suspended_since}"

    def seen(self, row: OutboundLink) -> operate.Seen:
        """The same for the flow, which looks under the lock."""
        message_id = row.in_flight.message_id if row.in_flight else ""
        return operate.Seen(message_id, row.suspended_since)

    def act(self, row: OutboundLink, actor: Actor, **fields: Any) -> str:
        done = type(self).flow(row.partner, actor, self.seen(row), **fields)
        return f"Partner {row.partner}: {self.done}. The link is {done.state} now: {done.text}."

    def conflict(self, row: OutboundLink) -> str:
        return f"the link has changed meanwhile. {status_text(row.lane, timezone.now())}"


class Suspend(LinkAction):
    name = "suspend"
    title = "Suspend"
    done = "suspended"
    icon = "pause"
    event = OperatorSuspended()
    flow = operate.suspend

    def version(self, row: OutboundLink) -> str:
        """Whatever is in flight: on a busy link that is another message every moment."""
        return ""

    def seen(self, row: OutboundLink) -> operate.Seen:
        return operate.ANYTHING

    def consequence(self, row: OutboundLink) -> str:
        flying = row.lane.in_flight
        waits = (
            f"Message {flying.sequence_number} stays in flight and is not sent again; an"
            " Acknowledgement that still comes is taken."
            if flying
            else "Nothing is in flight."
        )
        return (
            f"Nothing more is sent to {row.partner}. {waits} New messages queue up."
            " Acknowledgements and Errors that we owe still go. This lasts, over restarts too,"
            " until somebody resumes. The partner has nothing to do."
        )


class Resume(LinkAction):
    name = "resume"
    title = "Resolve and resume"
    done = "resumed"
    icon = "play_arrow"
    recommended = True
    event = OperatorResumed()
    flow = operate.resume

    def consequence(self, row: OutboundLink) -> str:
        if row.suspended_for == OPERATOR:
            return f"Suspended on purpose by {row.suspended_detail}. {self._what_goes(row)}"
        return self._what_goes(row)

    def _what_goes(self, row: OutboundLink) -> str:
        flying = row.lane.in_flight
        if flying is None:
            late = "What was in flight was acknowledged late and is complete. "
            return (late if row.late_ack else "") + (
                f"Nothing is in flight to {row.partner}: no message can be doubled. Its queue is"
                f" sent in order, beginning with number {row.next_number}. The partner has nothing"
                " to do."
            )
        if row.state == LaneState.TRANSIENT:
            return (
                f"The wait that {row.partner} asked for ends: message {flying.sequence_number} is"
                " sent again now, with the same bytes. No retry is spent. The partner has to be"
                " ready for it."
            )
        parted = row.suspended_for == IncidentKind.RESYNCHRONISE
        return (
            f"Message {flying.sequence_number} is sent to {row.partner} again now: same bytes,"
            f" number and MessageId. Its retry counter starts again at 0 of {flying.terms.retries}."
            " Once it is acknowledged, the queue follows in order. If the partner has stored it"
            " already, it discards the copy and acknowledges again. The incidents of this link are"
            " resolved with your reason. The partner has to be reachable, nothing else."
            + (" The partner said that the numbers have parted: mend that first." if parted else "")
        )


class ResetRetries(LinkAction):
    name = "reset_retries"
    title = "Reset retries"
    done = "retry counter at 0"
    icon = "restart_alt"
    event = RetriesReset()
    flow = operate.reset_retries

    def why_not(self, row: OutboundLink) -> str:
        why_not = super().why_not(row)
        if why_not or row.lane.flying.retries_spent:
            return why_not
        return f"no retry of message {row.lane.flying.sequence_number} is spent."

    def consequence(self, row: OutboundLink) -> str:
        flying = row.lane.flying
        return (
            f"The retry counter of message {flying.sequence_number} goes from"
            f" {flying.retries_spent} to 0 of {flying.terms.retries}. Nothing is sent now: the next"
            f" copy goes when it was due, at {format_time(row.due, timezone.now())}. The partner"
            " has nothing to do."
        )


class SendNow(LinkAction):
    name = "send_now"
    title = "Send now"
    done = "one more copy goes at once"
    icon = "send"
    event = SendNowRequested()
    flow = operate.send_now

    def consequence(self, row: OutboundLink) -> str:
        flying = row.lane.flying
        under_way = Attempt.objects.filter(message=row.in_flight, ended_at=None).last()
        beside = (
            f"Attempt {under_way.number} has been under way since"
            f" {format_time(under_way.claimed_at, timezone.now())}: this copy goes beside it. "
            if under_way
            else ""
        )
        return beside + (
            f"One more copy of message {flying.sequence_number} goes to {row.partner} at once: same"
            " bytes, number and MessageId. No retry is spent. If the partner has the message"
            " already, it discards the copy and acknowledges again. It has nothing else to do."
        )


RESUME = Resume()
ACTIONS = (RESUME, SendNow(), ResetRetries(), Suspend())
