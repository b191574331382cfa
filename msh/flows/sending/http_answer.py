"""What a partner answers on the connection of our own POST: a SOAP Fault, an Acknowledgment,
Errors, a message of a business (EB-067, EB-069 to EB-072)."""

import logging
from dataclasses import replace
from typing import cast

from msh.flows.sending.fly import AnswerEvent, Ended, FlightCopy
from msh.flows.wake_up import WakeUp, wake_up
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.ebms.agreement import ANY_SYNC, tolerated, wrong_parties
from msh.protocol.ebms.errors import NotAMessage, Unusable
from msh.protocol.ebms.message import (
    ReceivedMessage,
    SoapFault,
    errors_to_report,
    reports_of,
)
from msh.protocol.ebms.vocabulary import FaultCode, Kind
from msh.protocol.errors import RefusedTooOften
from msh.protocol.flight.answers import events_of
from msh.store import capacity
from msh.store.receiving import ebms2
from msh.store.receiving.ebms2_answers import Attribution
from msh.store.sending.agreements import is_retryable
from msh.store.sending.isolation import describe
from msh.transport.carrier import Finished
from msh.wire.ebms2.envelope import parse_answer
from msh.wire.text import prose
from partners.models import Partner

logger = logging.getLogger(__name__)


class NotNowError(Exception):
    """What an answer cannot be taken for now; it may be later."""


class _NotTakenError(Exception):
    """Why an answer counts for nothing: an operator may want to know it."""


class _RefusedError(_NotTakenError):
    """It is about this message: an operator has to know it."""


def ended_with(one: Finished) -> Ended:
    """How the attempt of a copy ended, with what its answer says: of that nothing is written here,
    except that a message of a business is taken. A Fault decides over the status.

    Raises NotNowError if that message cannot be stored now, as while its link is locked; else only
    what says that the database is gone.
    """
    copy, result = cast("FlightCopy", one.job.key), one.outcome
    bare = replace(result, answer=None)
    if result.answer is None:
        return Ended(copy, bare)
    try:
        return _read(copy, bare, *result.answer)
    except _NotTakenError as why:
        return Ended(copy, bare, note=str(why), refused=isinstance(why, _RefusedError))
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
        read = parse_answer(content_type, body)
    except NotAMessage:
        return Ended(copy, result)  # a page of a front end; the status stands
    except Unusable as problem:
        raise _NotTakenError(f"the answer has no usable MessageHeader: {problem}") from None
    if isinstance(read, SoapFault):
        return Ended(copy, _after_fault(copy, result, read))
    return Ended(copy, result, _events(copy, read))


def _after_fault(copy: FlightCopy, result: AttemptResult, fault: SoapFault) -> AttemptResult:
    again = fault.code is FaultCode.SERVER or is_retryable(copy.agreement_id, fault.error_codes)
    outcome = AttemptOutcome.FAILED if again else AttemptOutcome.REFUSED
    codes = f" ({', '.join(fault.error_codes)})" if fault.error_codes else ""
    detail = prose(f"SOAP Fault {fault.code}: {fault.text}{codes}")[:500]
    return replace(result, outcome=outcome, detail=detail)


def _events(copy: FlightCopy, received: ReceivedMessage) -> tuple[AnswerEvent, ...]:
    """A signal counts if it is about this message and of its agreement (EB-070)."""
    message = received.message
    if message.header.kind is Kind.BUSINESS:
        return _take_message(copy, received)
    about = message.acknowledged or message.header.ref_to_message_id
    if not message.header.kind.answers:
        raise _NotTakenError(f"a {message.header.kind} in an answer is not supported")
    if about != copy.message_id:
        raise _NotTakenError(f"the answer is about message {about}")
    _check_signal(copy, _found(copy, received), received)
    reports = reports_of(message.errors)
    return events_of(about, reports, acknowledged=bool(message.acknowledgments))


def _found(copy: FlightCopy, received: ReceivedMessage) -> Attribution:
    header = received.message.header
    partner = Partner.objects.get(pk=copy.partner_id)
    found = ebms2.attribute([partner], header, authenticated=True)
    if found is None:
        raise _NotTakenError(f"the answer names an agreement that we do not have: {header.cpa_id}")
    return found


def _take_message(copy: FlightCopy, received: ReceivedMessage) -> tuple[AnswerEvent, ...]:
    """As one that comes by a POST of its own, and answered by one, with SyncReply or without. An
    Acknowledgment on it counts, if it is of this message (EB-072)."""
    found = _found(copy, received)
    anyhow = replace(found, agreed=replace(found.agreed, sync_reply=ANY_SYNC))
    try:
        taken = ebms2.receive_message(anyhow, received)
    except RefusedTooOften:
        raise _NotTakenError(
            "the message in the answer is refused, because too many were refused"
        ) from None
    if taken.wait is not None:
        raise _NotTakenError(f"the message in the answer is not accepted now: {taken.refusal}")
    wake_up(WakeUp.TRANSMIT, *([WakeUp.DELIVER] if taken.accepted else []))
    is_ack = received.message.acknowledged == copy.message_id
    counts = is_ack and found.agreement_id == copy.agreement_id
    return events_of(copy.message_id, (), acknowledged=True) if counts else ()


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
