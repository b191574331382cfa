"""The events of the history in words. The API and the commands keep the names."""

import re
from collections.abc import Iterable

from django.conf import settings

from msh.flows.operations.inspection.causes import CAUSES, OUTCOMES, REFUSALS
from msh.flows.operations.inspection.trace import IN_PROGRESS, NOT_RECORDED, Moment
from msh.models import Direction
from msh.models.history import REFUSED
from msh.protocol.attempt import AttemptOutcome
from msh.protocol.ebms.vocabulary import Kind
from msh.protocol.kinds import DUPLICATE, EARLY_WARNING
from msh.protocol.vocabulary import MessageType
from msh.store.history import ITSELF
from msh.store.receiving.refusals import refusal_event

_OUT = {
    "MessageSubmitted": "Submitted by the application",
    "TestSubmitted": "Sent by an operator as a test",
    "CopySubmitted": "Submitted again as another message",
    "SubmittedInstead": "Submitted by an operator instead of another message",
    "PutInFlight": "Taken from the queue and given its number",
    "AckReceived": "Acknowledged by the partner",
    "AckOfOtherReceived": "The partner acknowledged another message",
    "AckOfUnknownReceived": "The partner acknowledged a message that was never sent",
    "AttemptEnded": "Sent once (BestEffort)",
    "CopyPromised": "A copy was handed to a worker",
    "AttemptClaimed": "A worker started to send a copy",
    "AttemptBegun": "The worker started to send the copy",
    "AttemptTransmitted": "A copy was sent; not acknowledged yet",
    "AttemptFailed": "A copy could not be sent",
    "AttemptRefused": "The partner refused a copy",
    "DeadlinePassed": "No Acknowledgement arrived in time",
    "TransientErrorReceived": "The partner asked to wait",
    "SequenceErrorReceived": "The partner reported a sequence number error",
    "ErrorReceived": "The partner answered with an Error",
    "ErrorForOtherReceived": "The partner sent an Error about another message",
    "ProbeDue": "One more copy was sent as a probe",
    "ProbeClaimed": "One more copy is sent as a probe",
    "Expired": "Its TimeToLive expired",
    "OperatorResumed": "Resumed",
    "OperatorSuspended": "Suspended",
    "RetriesReset": "The retry counter was reset",
    "SendNowRequested": "Send now was requested",
    "MessageCancelled": "Cancelled",
    "SequenceReset": "The sequence numbers were reset",
    "SequenceRewound": "Put back into the queue because the partner was restored",
    "SequenceAdopted": "The partner's sequence number was adopted",
    "Resynchronised": "The sequence numbers were resynchronised",
    "AcceptingSwitched": "Submissions were accepted or refused",
    "LinkStarted": "The last number was set",
    "ProcessingFailed": "Processing stopped with an error",
    "StatusRequested": "The partner was asked for its status",
    "StatusResponseReceived": "The partner reported its status",
    "FromPartyNotified": "The application was notified",
    "FromPartyPending": "The application has not been notified yet",
    "MessageStarted": "It got the next number of its conversation",
    "MessageTaken": "The partner has it; its conversation continued",
    "MessageStopped": "Its conversation is stopped",
    "MessageResumed": "Its conversation continued",
    "MessageLost": "Cancelled; its conversation must be restarted",
    "ConversationRestarted": "Its conversation was restarted",
    "ConversationStarted": "The last number of its conversation was set",
    "LastNumberSet": "The last number of its conversation was set",
    "DeliveryFailure": "The next MSH did not accept it",
    "MailBounced": "A mail host reported on the mail that carried it",
}
_IN = {
    "MessageArrived": "Received and stored",
    "DuplicateArrived": "Received again; the duplicate was discarded",
    "AcknowledgementTransmitted": "Acknowledged to the partner",
    "AcknowledgmentTransmitted": "Acknowledged to the partner",
    "AcknowledgementRefused": "The partner refused our Acknowledgement",
    "AcknowledgmentRefused": "The partner refused our Acknowledgement",
    "AcknowledgementPending": "Our Acknowledgement is not sent yet",
    "AcknowledgmentPending": "Our Acknowledgement is not sent yet",
    "ErrorTransmitted": "An Error was sent to the partner",
    "ErrorRefused": "The partner refused our Error",
    "ErrorPending": "Our Error is not sent yet",
    "MessageErrorTransmitted": "An Error was sent to the partner",
    "MessageErrorRefused": "The partner refused our Error",
    "MessageErrorPending": "Our Error is not sent yet",
    "SequenceGap": "Refused: messages before it are missing",
    "SequenceStale": "Refused: its number is too low",
    "SequenceConflict": "Refused: another message has its number",
    "MessageIdReused": "Refused: its MessageId is known with other content",
    "TransientError": "The partner was asked to wait",
    "MessageDelivered": "Delivered to the application",
    "MessageRejected": "Rejected by the application",
    "MessageReleased": "Released for delivery: the messages before it have arrived",
    "MessageDropped": "Given up by an operator",
    "MessageSentOn": "Forwarded to the next MSH",
    "SendingOnFailed": "Could not be forwarded",
    "OnwardAcknowledged": "Acknowledged by the next MSH",
    "DeliveryFailure": "The next MSH did not accept it",
    "DeliveryPolled": "The lease of a delivery attempt ended",
    "AttemptSucceeded": "The application accepted it",
    "AttemptRejected": "The application rejected it",
    "AttemptFailed": "The delivery failed",
    "OutcomeLost": "The result of the delivery is unknown",
    "OutcomeKept": "The result of the delivery was found",
    "ResolverAnswered": "The resolver answered",
    "RunAgainRequested": "Run again",
    "ReplayRequested": "A replay was requested",
    "ReplayCompleted": "The application accepted the replay",
    "ReplayRejected": "The application rejected the replay",
    "CompletionMarked": "Marked as completed",
    "RejectionMarked": "Marked as rejected",
    "ParkRequested": "Parked",
    "ResolverRequested": "The resolver was asked",
    "DeliverySwitched": "Deliveries were held or resumed",
    "ResetAllowed": "The next reset was allowed",
    "ResetsHeld": "Unexpected resets are held",
    "NumberExpected": "The expected number was set",
    "LinkStarted": "The last number was set",
    "ProcessingFailed": "Processing stopped with an error",
    "MissingSkipped": "The missing messages were skipped",
    "WaitExtended": "The wait for the missing message was extended",
    "HeldDropped": "The held messages were given up",
    "ConversationStarted": "The last number of its conversation was set",
    "RefusalTakenBack": "Its refusal was taken back: its next copy is judged anew",
    "MessageOfNoAgreement": "Refused: no agreement covers it",
    "RequestRefused": "A request was refused; it was no message",
    "MailBounced": "A mail host reported on a mail of ours",
    "AutomaticReplyReceived": "An automatic reply came by mail; nothing was done",
    "MailRefused": "A mail was refused; it was no message",
    "RefusalsNotNoted": "Requests or mails were refused too often to list each",
    "RefusalsNotAnswered": "Refused too often: the partner was asked to come later",
    "SignalsNotNoted": "Signals that mean nothing came too often to list each",
    "PingReceived": "The partner sent a Ping",
    "StatusRequestReceived": "The partner asked for the status of a message",
    "Note": "Note",
}
_DECIDED = {
    "MessageDelivered": "Marked completed by an operator",
    "MessageRejected": "Marked rejected by an operator",
    "ReplayCompleted": "The replay was marked completed by an operator",
    "ReplayRejected": "The replay was marked rejected by an operator",
    "RunAgainRequested": "Run again was requested",
}
"""Words for the same events if an operator, not the application, caused them."""
_BOTH = {
    **{
        refusal_event(kind): f"{kind} of the partner was refused"
        for kind in (*MessageType, *Kind)
        if kind.is_signal
    },
    "SecondPersonAsked": "A second person was asked to confirm",
    "SecondPersonConfirmed": "Confirmed by a second person and done",
    "SecondPersonRefused": "Refused by a second person",
    "RequestWithdrawn": "The request was withdrawn",
    "WentAheadAlone": "Done without a second person",
}
WORDS: dict[str, dict[str, str]] = {Direction.OUT: _OUT | _BOTH, Direction.IN: _IN | _BOTH}
ATTEMPTS = {
    "transmitted": "sent; no Acknowledgement yet",
    "failed": "failed",
    "doubted": "sent; the answer was unexpected",
    "refused": "refused by the partner",
    IN_PROGRESS: "being sent",
    NOT_RECORDED: "may have been sent; its end was not recorded",
}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


_SWITCHED = {
    ("AcceptingSwitched", "off"): "Submissions are refused from now on",
    ("AcceptingSwitched", "on"): "Submissions are accepted again",
    ("DeliverySwitched", "off"): "Deliveries are held from now on",
    ("DeliverySwitched", "on"): "Deliveries are resumed",
}


def event_text(event: str, direction: str, state: str = "", code: str = "") -> str:
    """An event that has no words yet is shown as those of its name. `state`: after it. `code`: of
    the history."""
    if event in REFUSED and code in REFUSALS:
        return f"{WORDS[Direction.IN][event]}: {REFUSALS[code].title}"
    if switched := _SWITCHED.get((event, state)):
        return switched
    known = WORDS.get(direction, {}).get(event)
    return known or _HUMP.sub(" ", event).capitalize()


def state_text(state: str) -> str:
    """Return the words for the state of a message, link or delivery, or for the outcome of an
    attempt."""
    shown = OUTCOMES[AttemptOutcome.DOUBTED] if state == AttemptOutcome.DOUBTED else state
    return shown.replace("_", " ")


def story_of(moments: Iterable[Moment]) -> list[tuple[Moment, str, str]]:
    """Each with its sentence and its detail. What an attempt caused does not repeat its answer; of
    early warnings the first is told, as to operators. Without a handler nobody is to be notified.
    """
    told, warned = [], False
    for one in moments:
        is_warning = one.code == EARLY_WARNING
        unheard = one.event == "FromPartyPending" and not settings.MSH_FROM_PARTY_HANDLER
        if not (unheard or (is_warning and warned)):
            told.append((one, *_sentence(one)))
        warned = warned or is_warning
    return told


def _numbered(moment: Moment, last: int) -> str:
    if moment.direction == Direction.IN:
        return f"Attempt {last} to deliver it started"
    copies = "Copies {} to {}" if moment.times > 1 else "Copy {1}"
    answered = moment.to_state == AttemptOutcome.FAILED and moment.answered
    ended = "answered with an error" if answered else ATTEMPTS[moment.to_state]
    return f"{copies.format(last - moment.times + 1, last)} {ended}"


def _sentence(moment: Moment) -> tuple[str, str]:
    if moment.number is not None:
        return _numbered(moment, moment.number), moment.detail
    if moment.code == EARLY_WARNING:
        return "Operators were warned: retries are unlikely to help", ""
    if moment.code in CAUSES and not moment.to_state:
        repeats = moment.event.startswith("Attempt")
        return f"Incident opened: {CAUSES[moment.code].title}", "" if repeats else moment.detail
    if moment.event == "DeliveryPolled":
        return _polled(moment), moment.detail
    if moment.actor != ITSELF.name and moment.event in _DECIDED:
        return _DECIDED[moment.event], moment.detail
    return event_text(moment.event, moment.direction), moment.detail


def _polled(moment: Moment) -> str:
    if moment.to_state == "in_doubt":
        return "An attempt did not end: whether the application has it is unknown"
    if moment.code == DUPLICATE:
        return "A duplicate was not delivered again"
    return event_text(moment.event, moment.direction)
