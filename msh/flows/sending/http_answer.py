"""What a partner answers on the connection of our own POST: a SOAP Fault, an Acknowledgment, Errors
(EB-067, EB-069 to EB-071)."""

import logging
from dataclasses import replace
from typing import cast

from msh.flows.sending.answered import take_answer
from msh.flows.sending.fly import FlightCopy
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.ebms.agreement import tolerated, wrong_parties
from msh.protocol.ebms.errors import NotAMessage, Unusable
from msh.protocol.ebms.message import (
    ReceivedMessage,
    SoapFault,
    errors_to_report,
    reports_of,
)
from msh.protocol.ebms.vocabulary import FaultCode, Kind
from msh.store import capacity
from msh.store.receiving import ebms2
from msh.store.receiving.messages import note_unexpected
from msh.store.receiving.refusals import count_unrecorded, may_record
from msh.store.sending.isolation import describe
from msh.transport.carrier import Finished
from msh.wire.ebms2.envelope import parse_answer
from msh.wire.text import prose
from partners.models import Partner

logger = logging.getLogger(__name__)

_SIGNALS = (Kind.ACKNOWLEDGMENT, Kind.MESSAGE_ERROR)


def take_answer_of(one: Finished) -> Finished:
    """The same without its answer, which has been taken: only once, also if how the attempt ended
    is recorded in a later round. A Fault decides over the status. Raises only what says that the
    database is gone."""
    result = one.outcome
    if result.answer is None:
        return one
    copy = cast("FlightCopy", one.job.key)
    try:
        result = _take(copy, result, *result.answer)
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.exception("the answer to message %s could not be processed", copy.message_id)
        _note(copy, f"the answer could not be processed: {describe(error)}")
    return Finished(one.job, replace(result, answer=None))


def _take(copy: FlightCopy, result: AttemptResult, content_type: str, body: bytes) -> AttemptResult:
    try:
        read = parse_answer(content_type, body)
    except NotAMessage:
        return result  # a page of a front end; the status stands
    except Unusable as problem:
        _note(copy, f"the answer has no usable MessageHeader: {problem}")
        return result
    if isinstance(read, SoapFault):
        return _after_fault(result, read)
    _take_signal(copy, read)
    return result


def _after_fault(result: AttemptResult, fault: SoapFault) -> AttemptResult:
    again = fault.code is FaultCode.SERVER
    outcome = AttemptOutcome.FAILED if again else AttemptOutcome.REFUSED
    detail = prose(f"SOAP Fault {fault.code}: {fault.text}")[:500]
    return replace(result, outcome=outcome, detail=detail)


def _take_signal(copy: FlightCopy, received: ReceivedMessage) -> None:
    """It counts if it is about this message and of its agreement (EB-070)."""
    message = received.message
    about = message.acknowledged or message.header.ref_to_message_id
    if message.header.kind not in _SIGNALS:
        _note(copy, f"a {message.header.kind} in an answer is not supported")
    elif about != copy.message_id:
        _note(copy, f"the answer is about message {about}")
    elif why := _why_not_taken(copy, received):
        _note(copy, why)


def _why_not_taken(copy: FlightCopy, received: ReceivedMessage) -> str:
    """Empty if it counts."""
    message, header = received.message, received.message.header
    partner = Partner.objects.get(pk=copy.partner_id)
    found = ebms2.attribute([partner], header, authenticated=True)
    if found is None:
        return f"the answer names no agreement of ours: {header.cpa_id}"
    defects = tolerated(received.defects, found.agreed)
    errors = errors_to_report(defects, found.agreed.lenient) or wrong_parties(
        found.agreed, header.from_party, header.to_party
    )
    if errors:
        return f"the answer is wrong: {errors[0].description}"
    taken = take_answer(
        copy.partner_id,
        found.agreement_id,
        copy.message_id,
        acknowledged=bool(message.acknowledgments),
        errors=reports_of(message.errors),
    )
    return "" if taken else "the answer is of another agreement than the message"


def _note(copy: FlightCopy, detail: str) -> None:
    if may_record(copy.partner_id):
        note_unexpected(copy.partner_id, copy.message_id, "AnswerReceived", detail)
    else:
        count_unrecorded(copy.partner_id)
