"""Why a message that flies is not sent or not acknowledged yet."""

from datetime import datetime

from django.utils.timezone import localtime

from msh.models import (
    Attempt,
    Flight,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
    OutboundState,
)
from msh.protocol.attempt import AttemptOutcome
from msh.protocol.flight.numbering import NumberingState
from msh.protocol.flight.value import FlightState
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import OPERATOR, LaneState
from msh.store.operations.windows import is_in_maintenance

from .answers import OUTCOMES, answer_of
from .causes import cause_of
from .retrying import is_retrying, retrying


def explanation_of_flight(message: OutboundMessage) -> str:
    """A few sentences. `message` with its link, and its flight if it has one."""
    if message.state == OutboundState.FAILED:
        advice = cause_of(IncidentKind.CONVERSATION_STOPPED).advice
        return f"Failed at {_time(message.completed_at)}; its conversation is stopped. {advice}"
    return _under_way(message, message.flight)


def _under_way(message: OutboundMessage, flight: Flight) -> str:
    link = message.link
    if flight.state == FlightState.HELD:
        return _held(flight)
    if link.state == LaneState.SUSPENDED:
        cause = cause_of(link.suspended_for, answer_of(link.suspended_detail))
        detail = f" ({' '.join(link.suspended_detail.split())})" if link.suspended_detail else ""
        return f"{cause.what}{detail}.{_next_probe(link)} {cause.advice}"
    if flight.state == FlightState.WAITING:
        return (
            f"Attempt {flight.attempt} was started; waiting for its Acknowledgement until"
            f" {_time(flight.due)}.{_last(message)}"
        )
    if flight.under_way:
        return f"The next copy is waiting for a worker.{_last(message)}"
    if flight.ordered_in is not None and (why := _turn(flight, flight.ordered_in)):
        return why
    return (
        "It is waiting for a worker, or for a place in the window: the agreements limit how many"
        " messages to the partner are under way at once."
    )


def _next_probe(link: OutboundLink) -> str:
    if link.probe_due is None:
        return ""
    if is_in_maintenance(link.partner_id):
        return " No probe is sent while the maintenance window runs."
    return f" The next probe is due at {_time(link.probe_due)}."


def stops_its_conversation(message: OutboundMessage) -> bool:
    """Whether it failed, and an operator may send it again."""
    if message.state != OutboundState.FAILED or message.order_number is None:
        return False
    named = {"agreement": message.agreement_id, "conversation_id": message.conversation_id}
    stopped = OutboundConversation.objects.filter(**named)
    return stopped.filter(stopped_by__contains=[message.message_id]).exists()


def _turn(flight: Flight, conversation: OutboundConversation) -> str:
    """Why it may not start yet; empty if it may, or has a number already."""
    if conversation.state == NumberingState.STOPPED:
        stopped_by = ", ".join(conversation.stopped_by)
        what = f": message {stopped_by}" if stopped_by else ""
        advice = cause_of(IncidentKind.CONVERSATION_STOPPED).advice
        return f"Its conversation is stopped{what}. {advice}"
    if flight.waits_turn and conversation.state == NumberingState.CONFIRMING:
        first = conversation.unconfirmed
        return f"The first message of its conversation, {first}, is not acknowledged yet."
    if flight.waits_turn and conversation.head != flight.pk:
        return "Messages of its conversation that were submitted before are sent first."
    return ""


def _held(flight: Flight) -> str:
    if flight.held_for == OPERATOR:
        return "An operator holds it. Resume it, or cancel it with a verdict."
    return f"{cause_of(flight.held_for).what}. Resume it, send it now, or cancel it with a verdict."


def _last(message: OutboundMessage) -> str:
    attempt = Attempt.objects.filter(message=message).order_by("-number").first()
    if attempt is None or attempt.ended_at is None:
        return ""
    detail = f", {attempt.detail}" if attempt.detail else ""
    cause = None
    if is_retrying(attempt.outcome, attempt.number - 1):
        cause = retrying(attempt.detail, attempt.status)
    advice = f" {cause.advice}" if cause else ""
    outcome = OUTCOMES[AttemptOutcome(attempt.outcome)]
    return f" Attempt {attempt.number} ended with: {outcome}{detail[:200]}.{advice}"


def _time(at: datetime | None) -> str:
    return f"{localtime(at):%Y-%m-%d %H:%M:%S %Z}" if at else "an unknown time"
