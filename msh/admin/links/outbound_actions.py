"""The frequent actions on a link to a partner: resume, send now, reset retries, suspend; and those
that are dialogs as they are declared."""

from collections.abc import Mapping

from django.utils import timezone

from msh.admin.framework.actions import ActionDialog
from msh.admin.framework.time_format import format_time
from msh.flows.operations import link_actions
from msh.flows.operations.inspection.causes import Help
from msh.flows.operations.operator_action import LinkAction
from msh.models import Attempt, OutboundLink
from msh.protocol import sender
from msh.protocol.errors import IllegalTransition
from msh.protocol.lane import OPERATOR

from .advice import helps_first
from .cancelling import is_cancelling
from .link_view import sentence_of, view_of
from .maintenance import going_on, window_of


class LinkDialog(ActionDialog[OutboundLink]):
    """One event of the sender; its table says in which states it is possible."""

    action: LinkAction

    def why_not(self, row: OutboundLink) -> str:
        try:
            sender.step(row.lane, self.action.event, now=timezone.now())
        except IllegalTransition:
            return f"the link to {row.partner} is {row.state}."
        return ""

    def preconditions(self, row: OutboundLink) -> Mapping[str, object]:
        """The message in flight and this suspension: a later one may have another cause."""
        message_id = row.in_flight.message_id if row.in_flight else ""
        return {"if_message": message_id, "if_suspended_since": row.suspended_since}

    def done(self, row: OutboundLink) -> str:
        """Return what was done, for a dialog with its own `act`. It does not name the state of the
        link: the page does, and stays right when this message is outdated."""
        return f"Partner {row.partner}: {self.action.done}."

    def conflict(self, row: OutboundLink) -> str:
        return f"the link has changed in the meantime. {sentence_of(row)}"


class Suspend(LinkDialog):
    action = link_actions.SUSPEND
    icon = "pause"

    def preconditions(self, row: OutboundLink) -> Mapping[str, object]:
        """None: on a busy link the message in flight changes all the time."""
        return {}

    def consequence(self, row: OutboundLink) -> str:
        waits = view_of(row).suspended(row)
        return (
            f"No more messages are sent to {row.partner}. {waits} New messages are queued. Pending"
            " Acknowledgements and Errors are still sent. The suspension survives restarts and"
            " lasts until somebody resumes. The partner does not have to do anything."
        )


class Resume(LinkDialog):
    action = link_actions.RESUME
    icon = "play_arrow"

    def is_recommended(self, row: OutboundLink) -> bool:
        held = is_cancelling(row) or window_of(row) is not None
        return helps_first(row, Help.RESUME) and not held

    def consequence(self, row: OutboundLink) -> str:
        resumed = f"{view_of(row).resumed(row)}{going_on(row)}"
        if row.suspended_for == OPERATOR:
            return f"Suspended by {row.suspended_detail}. {resumed}"
        return resumed


class ResetRetries(LinkDialog):
    action = link_actions.RESET_RETRIES
    icon = "restart_alt"

    def why_not(self, row: OutboundLink) -> str:
        why_not = super().why_not(row)
        if why_not or row.lane.flying.retries_spent:
            return why_not
        return f"message {row.lane.flying.sequence_number} has not used any retries."

    def consequence(self, row: OutboundLink) -> str:
        flying = row.lane.flying
        return (
            f"The retry counter of message {flying.sequence_number} is reset from"
            f" {flying.retries_spent} to 0 of {flying.terms.retries}. Nothing is sent now; the next"
            f" attempt is still due at {format_time(row.due, timezone.now())}. The partner does not"
            " have to do anything."
        )


class SendNow(LinkDialog):
    action = link_actions.SEND_NOW
    icon = "send"

    def consequence(self, row: OutboundLink) -> str:
        flying = row.lane.flying
        in_progress = Attempt.objects.filter(message=row.in_flight, ended_at=None).last()
        parallel = (
            f"Attempt {in_progress.number} has been in progress since"
            f" {format_time(in_progress.claimed_at, timezone.now())}; the new one is parallel. "
            if in_progress
            else ""
        )
        return parallel + (
            f"Message {flying.sequence_number} is sent to {row.partner} again now, with the same"
            " bytes, number and MessageId. No retry is used. If the partner has already stored the"
            " message, it discards the duplicate and acknowledges it again. The partner does not"
            " have to do anything else."
        )


RESUME = Resume()
ACTIONS = (RESUME, SendNow(), ResetRetries(), Suspend())
ACCEPT: ActionDialog[OutboundLink] = ActionDialog(link_actions.ACCEPT_SUBMISSIONS, "lock_open")
PLAIN: tuple[ActionDialog[OutboundLink], ...] = (
    ActionDialog(link_actions.REFUSE_SUBMISSIONS, "lock"),
    ACCEPT,
    ActionDialog(link_actions.SET_LAST_NUMBER_OUT, "start"),
)
