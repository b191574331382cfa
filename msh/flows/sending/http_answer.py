"""What a partner answers on the connection of our own POST: a SOAP Fault, an Acknowledgment,
Errors, a message of a business (EB-067, EB-069 to EB-072)."""

import logging
from collections.abc import Iterable
from dataclasses import replace

from msh.flows.sending.answered import take_answers
from msh.flows.sending.flights import OF_BEST_EFFORT
from msh.flows.sending.kinds import Answer, Ended, FlightCopy
from msh.flows.sending.proof import counting, judged, opened
from msh.flows.wake_up import WakeUp, wake_up
from msh.protocol.attempt import AttemptOutcome, AttemptResult, not_read, shortened
from msh.protocol.ebms.agreement import ANY_SYNC, tolerated, wrong_parties
from msh.protocol.ebms.errors import NotAMessage, Unusable
from msh.protocol.ebms.message import (
    AnswerTo,
    ReceivedMessage,
    SoapFault,
    errors_to_report,
    reports_of,
)
from msh.protocol.ebms.vocabulary import FaultCode, Kind
from msh.protocol.errors import RefusedTooOften
from msh.protocol.events import ErrorReceived
from msh.protocol.flight.answers import events_of
from msh.protocol.message import ErrorReport
from msh.protocol.reason import Reason
from msh.protocol.vocabulary import ErrorCode as InnerCode
from msh.protocol.vocabulary import Severity
from msh.store import capacity
from msh.store.receiving import ebms2
from msh.store.receiving.ebms2_answers import Attribution
from msh.store.sending.agreements import is_retryable
from msh.store.sending.best_effort_sql import BestEffortCopy
from msh.store.sending.isolation import describe
from msh.wire.ebms2.envelope import parse_answer
from msh.wire.text import prose
from partners.models import Partner

logger = logging.getLogger(__name__)

_FAULT_DECIDES = frozenset({200, 400, 500})


class NotNowError(Exception):
    """What an answer cannot be taken for now; it may be later."""


class _NotTakenError(Exception):
    """Why an answer counts for nothing, but for the `events` beside it: an operator may want to
    know it."""

    def __init__(self, why: str, events: tuple[Answer, ...] = ()) -> None:
        super().__init__(why)
        self.events = events


class _RefusedError(_NotTakenError):
    """It is about this message: an operator has to know it."""


def answer_of_best_effort(one: Ended) -> Ended | None:
    """The answer to a BestEffort message, as one that `ended_with` reads. How its attempt ended is
    recorded without it."""
    copy = one.copy
    if not (isinstance(copy, BestEffortCopy) and copy.agreement_id and one.result.answer):
        return None
    about = (copy.key, copy.message_id, copy.partner_id, copy.agreement_id)
    return Ended(FlightCopy(*about, OF_BEST_EFFORT), one.result)


def ended_with(one: Ended) -> Ended:
    """The outcome with what the answer of the partner says, if that is not read yet: of it nothing
    is written here, except that a message of a business is taken. A Fault decides over the status.

    Raises NotNowError if that message cannot be stored now, as while its link is locked; else only
    what says that the database is gone.
    """
    copy, result = one.copy, one.result
    if result.answer is None:
        return one
    bare = replace(result, answer=None)
    try:
        return _read(copy, bare, *result.answer)
    except _NotTakenError as why:
        refused = isinstance(why, _RefusedError)
        return Ended(copy, bare, why.events, note=str(why), refused=refused)
    except Exception as error:
        if capacity.is_gone(error):
            raise
        if not capacity.is_lasting(error):
            raise NotNowError(f"the answer to {copy.message_id}: {describe(error)}") from error
        logger.exception("the answer to message %s could not be processed", copy.message_id)
        note = f"the answer could not be processed: {describe(error)}"
        return Ended(copy, bare, note=note)


def _read(copy: FlightCopy, result: AttemptResult, content_type: str, body: bytes) -> Ended:
    try:
        read = _parsed(content_type, body)
    except NotAMessage:  # a page of a front end; the status stands
        detail = result.detail
        if result.outcome is AttemptOutcome.TRANSMITTED:
            detail = f"{detail}, {not_read(len(body), content_type)}"
        return Ended(copy, replace(result, detail=shortened(prose(detail))))
    except Unusable as problem:
        raise _NotTakenError(f"the answer has no usable MessageHeader: {problem}") from None
    if isinstance(read, SoapFault):
        ended = _with_fault(copy, result, read)
        return Ended(copy, ended, _of_fault(copy, ended))
    return Ended(copy, result, _events(copy, read))


def _parsed(content_type: str, body: bytes) -> ReceivedMessage | SoapFault:
    """A SOAP 1.1 envelope is read whatever type it is said to have, or none: small SOAP servers
    write that of another version, or an empty one. Raises as `parse_answer`."""
    try:
        return parse_answer(content_type, body)
    except NotAMessage:
        if content_type.lower().startswith(("multipart/", "text/xml", "application/xml")):
            raise
        return parse_answer("text/xml", body)


def _with_fault(copy: FlightCopy, result: AttemptResult, fault: SoapFault) -> AttemptResult:
    """It decides over a status that says less than it. The others speak of configuration, of a
    gateway, or of a wait, which a Fault of whoever answers in the partner's place takes back
    (EB-067, EB-089)."""
    codes = f" ({', '.join(fault.error_codes)})" if fault.error_codes else ""
    code = f"SOAP Fault {fault.code}{codes}"
    said = prose(f"SOAP Fault {fault.code}: {fault.text}{codes}")
    if result.status not in _FAULT_DECIDES:
        detail = f"{result.status_line or result.status}: {said}"
        return replace(result, detail=shortened(detail))
    again = fault.code is FaultCode.SERVER or is_retryable(copy.agreement_id, fault.error_codes)
    outcome = AttemptOutcome.FAILED if again else AttemptOutcome.REFUSED
    reason = Reason.SERVER_ERROR if again else Reason.MESSAGE
    return replace(result, outcome=outcome, detail=shortened(said), code=code, reason=reason)


def _of_fault(copy: FlightCopy, result: AttemptResult) -> tuple[Answer, ...]:
    """The one attempt of a BestEffort message is recorded without the Fault."""
    if copy.attempt != OF_BEST_EFFORT:
        return ()
    report = ErrorReport(InnerCode.UNKNOWN, Severity.HARD_ERROR, description=result.detail)
    return (ErrorReceived(copy.message_id, report),)


def _events(copy: FlightCopy, received: ReceivedMessage) -> tuple[Answer, ...]:
    """A signal counts if it is about this message and of its agreement (EB-070)."""
    message = received.message
    if message.header.kind is Kind.BUSINESS:
        return _take_message(copy, received)
    if not message.header.kind.answers:
        raise _NotTakenError(f"a {message.header.kind} in an answer is not supported")
    about = [one.message_id for one in message.answers] or [message.header.ref_to_message_id]
    if about != [copy.message_id]:
        raise _NotTakenError(f"the answer is about message {about[0]}")
    found = _found(copy, received)
    received = opened(found.agreed, received)
    _check_signal(copy, found, received)
    for _, why in judged(found, received):
        if why:
            raise _RefusedError(f"the answer is wrong: {why}")
    return _events_of(copy, message.answers)


def _events_of(copy: FlightCopy, answers: Iterable[AnswerTo]) -> tuple[Answer, ...]:
    for one in answers:
        if one.message_id == copy.message_id:
            reports = reports_of(one.errors)
            return events_of(one.message_id, reports, acknowledged=one.acknowledged)
    return ()


def _found(copy: FlightCopy, received: ReceivedMessage) -> Attribution:
    header = received.message.header
    partner = Partner.objects.get(pk=copy.partner_id)
    found = ebms2.attribute([partner], header, authenticated=True)
    if found is None:
        raise _NotTakenError(f"the answer names an agreement that we do not have: {header.cpa_id}")
    return found


def _take_message(copy: FlightCopy, received: ReceivedMessage) -> tuple[Answer, ...]:
    """As one that comes by a POST of its own, and answered by one, with SyncReply or without. What
    it says of messages of ours counts whatever becomes of it, what it says of this one by the round
    that records its attempt (EB-072, EB-088)."""
    found = _found(copy, received)
    received = opened(found.agreed, received)
    answers = list(counting(found, received))
    is_ours = found.agreement_id == copy.agreement_id
    events = _events_of(copy, answers) if is_ours else ()
    anyhow = replace(found, agreed=replace(found.agreed, sync_reply=ANY_SYNC))
    try:
        taken = ebms2.receive_message(anyhow, received)
        why = taken.refusal if taken.wait is not None else ""
    except RefusedTooOften:
        taken, why = None, "too many were refused"
    others = (one for one in answers if not (is_ours and one.message_id == copy.message_id))
    take_answers(copy.partner_id, found.agreement_id, others)
    if why:
        raise _NotTakenError(f"the message in the answer is not accepted now: {why}", events)
    wake_up(WakeUp.TRANSMIT, *([WakeUp.DELIVER] if taken and taken.accepted else []))
    return events


def _check_signal(copy: FlightCopy, found: Attribution, received: ReceivedMessage) -> None:
    header = received.message.header
    defects = tolerated(received.defects, found.agreed)
    errors = errors_to_report(defects, found.agreed.lenient) or wrong_parties(
        found.agreed, header.from_party, header.to_party
    )
    if errors:
        raise _RefusedError(f"the answer is wrong: {errors[0].description}")
    if found.agreement_id != copy.agreement_id:
        raise _NotTakenError("the answer belongs to another agreement than the message")
