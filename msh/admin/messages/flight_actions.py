"""Actions on a message that flies: suspend it, resume it, send it now, reset its retries; ask the
partner about it."""

from typing import cast

from django.utils import timezone

from msh.admin.framework.actions import ActionDialog, ReasonForm
from msh.admin.framework.time_format import format_time
from msh.flows.operations import actions, change_flight
from msh.flows.operations.change_flight import FlightChange
from msh.flows.operations.inspection.flights import flight_of
from msh.flows.operations.operator_action import OperatorAction
from msh.flows.receiving import questions
from msh.models import OutboundMessage, OutboundState
from msh.protocol.flight import Flight, FlightState
from msh.store.history import Actor


class FlightDialog(ActionDialog[OutboundMessage]):
    """One event of a flight; its table says in which states it is possible."""

    action: OperatorAction

    def why_not(self, row: OutboundMessage) -> str:
        flight = flight_of(row)
        if flight is None:
            return "it is sent in the order of its link: use the actions of the link."
        change: FlightChange = change_flight.VERBS[self.action.name]
        why = change_flight.why_not(flight, change.event, timezone.now())
        return f"{why}." if why else self.why_pointless(flight)

    def why_pointless(self, flight: Flight) -> str:
        """Why it would change nothing, though it is possible."""
        return ""

    def version(self, row: OutboundMessage) -> str:
        flight = flight_of(row)
        return f"{flight.state}, attempt {flight.attempt}" if flight else ""


class SuspendMessage(FlightDialog):
    action = actions.SUSPEND_MESSAGE
    icon = "pause"

    def version(self, row: OutboundMessage) -> str:
        """Empty: its attempts go on while the dialog is open."""
        return ""


class ResumeMessage(FlightDialog):
    action = actions.RESUME_MESSAGE
    icon = "play_arrow"
    recommended = True

    def consequence(self, row: OutboundMessage) -> str:
        flight = _flight(row)
        when = f"as soon as there is a place in the window of {row.link.partner}"
        if not flight.attempt:
            return f"The message is sent {when}. The partner does not have to do anything."
        return (
            f"The message is sent again {when}, with the same bytes and MessageId. Its retry"
            f" counter restarts at 0 of {flight.terms.retries}. If the partner has already stored"
            " it, the partner discards the duplicate and acknowledges it again. The incident of"
            " the message is resolved with your reason. The partner must be reachable."
        )


class SendMessageNow(FlightDialog):
    action = actions.SEND_NOW_MESSAGE
    icon = "send"

    def why_pointless(self, flight: Flight) -> str:
        ready = flight.state is FlightState.READY
        return (
            ("its next copy is already waiting for a worker or for a place in the window.")
            if ready
            else ""
        )


class ResetMessageRetries(FlightDialog):
    action = actions.RESET_RETRIES_MESSAGE
    icon = "restart_alt"

    def why_pointless(self, flight: Flight) -> str:
        if flight.state is FlightState.HELD:
            return "it is held: resume it."
        return "" if retries_used(flight) else "it has not used any retries."

    def consequence(self, row: OutboundMessage) -> str:
        flight = _flight(row)
        return (
            f"The retry counter of the message is reset from {retries_used(flight)} to 0 of"
            f" {flight.terms.retries}. Nothing is sent now; the next attempt is still due at"
            f" {format_time(flight.due, timezone.now())}. The partner does not have to do anything."
        )


class AskStatus(ActionDialog[OutboundMessage]):
    action = actions.ASK_STATUS
    icon = "contact_support"

    def why_not(self, row: OutboundMessage) -> str:
        if why := questions.why_not_asked(row.agreement):
            return why
        if row.first_sent_at is None:
            return "it was not sent yet."
        return "it is acknowledged." if row.state == OutboundState.ACKNOWLEDGED else ""

    def act(self, row: OutboundMessage, actor: Actor, form: ReasonForm) -> str:
        said = self.action.flow(row, actor)
        detail = f", {said.detail}" if said.detail else ""
        return f"{row.link.partner} says of message {row}: {said.answer}{detail}."


def retries_used(flight: Flight) -> int:
    return max(flight.copies - 1, 0)


def progress_of(flight: Flight) -> str:
    so_far = f"{flight.attempt} attempt{'' if flight.attempt == 1 else 's'}"
    return f"{so_far}, {retries_used(flight)} of {flight.terms.retries} retries used"


def _flight(row: OutboundMessage) -> Flight:
    """Return the flight of a message that `why_not` has not refused."""
    return cast("Flight", flight_of(row))


RESUME = ResumeMessage()
ACTIONS = (
    RESUME,
    SendMessageNow(),
    ResetMessageRetries(),
    SuspendMessage(),
    AskStatus(),
)
