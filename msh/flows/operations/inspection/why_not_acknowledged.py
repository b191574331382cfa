"""Why a message that flies is not sent or not acknowledged yet."""

from datetime import datetime

from django.utils import timezone
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
from msh.protocol.reason import Reason, deciding
from msh.store.operations.windows import is_in_maintenance

from .causes import OUTCOMES, cause_of, is_retrying, retrying
from .copies import under_way
from .situation import why_they_failed
from .standing import standing_of_link, standing_of_message
from .ways import Standing, filled

COPY_UNDER_WAY = "One copy is still under way: its result counts."


def explanation_of_flight(message: OutboundMessage) -> str:
    """A few sentences, with marks (`ways.py`). `message` with its link, and its flight if it has
    one."""
    if message.state == OutboundState.FAILED:
        standing = standing_of_message(message, timezone.now())
        advice = cause_of(IncidentKind.CONVERSATION_STOPPED, standing=standing).text
        why = why_they_failed([message]).get(message.pk)
        return (
            f"Failed at {_time(message.completed_at)}{f': {why}' if why else ''}; its conversation"
            f" is stopped. {advice}"
        )
    return _under_way(message, message.flight)


def _under_way(message: OutboundMessage, flight: Flight) -> str:
    link = message.link
    if flight.state == FlightState.HELD:
        return _held(message, flight)
    if link.state == LaneState.SUSPENDED:
        cause = cause_of(link.suspended_for, _last_reason(message, link), standing_of_link(link))
        told = " ".join(link.suspended_detail.split())
        detail = f" ({told})" if told else ""
        return f"{cause.title}{detail}.{_next_probe(link)} {cause.text}"
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
        return f"Its conversation is stopped{what}. See the page of that message."
    if flight.waits_turn and conversation.state == NumberingState.CONFIRMING:
        first = conversation.unconfirmed
        return f"The first message of its conversation, {first}, is not acknowledged yet."
    if flight.waits_turn and conversation.head != flight.pk:
        return "Messages of its conversation that were submitted before are sent first."
    return ""


def _held(message: OutboundMessage, flight: Flight) -> str:
    standing = standing_of_message(message, timezone.now())
    if flight.held_for == OPERATOR:
        what, advice = "An operator holds it", ""
    else:
        cause = cause_of(flight.held_for, _reason(_last_attempt(message)), standing)
        what, advice = f"{cause.title}.{_last(message)}".rstrip("."), f"{cause.text} "
    lapsed = (
        " No further copy of it may be sent: its time is over."
        if standing is Standing.LAPSED
        else ""
    )
    own = filled("{Again}. Or {send_now}. Or {cancel}.", standing)
    copy = f" {COPY_UNDER_WAY}" if under_way(message.link, message) else ""
    return f"{what}.{lapsed}{copy} {advice}{own}"


def _last_attempt(message: OutboundMessage) -> Attempt | None:
    """If it has ended."""
    attempt = Attempt.objects.filter(message=message).order_by("-number").first()
    return attempt if attempt is not None and attempt.ended_at else None


def _reason(attempt: Attempt | None) -> Reason:
    return Reason(attempt.reason) if attempt else Reason.NONE


def _last_reason(message: OutboundMessage, link: OutboundLink) -> Reason:
    """Return the last reason of the message, or else of the one for which the link was
    suspended."""
    return deciding(Reason(link.suspended_reason), _reason(_last_attempt(message)))


def _last(message: OutboundMessage) -> str:
    attempt = _last_attempt(message)
    if attempt is None:
        return ""
    detail = f", {attempt.detail}" if attempt.detail else ""
    cause = None
    if message.link.state != LaneState.SUSPENDED and is_retrying(
        attempt.outcome, attempt.number - 1
    ):
        cause = retrying(Reason(attempt.reason))
    advice = f" {cause.text}" if cause else ""
    outcome = OUTCOMES[AttemptOutcome(attempt.outcome)]
    return f" Attempt {attempt.number} ended with: {outcome}{detail[:200]}.{advice}"


def _time(at: datetime | None) -> str:
    return f"{localtime(at):%Y-%m-%d %H:%M:%S %Z}" if at else "an unknown time"
