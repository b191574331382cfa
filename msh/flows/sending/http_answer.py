"""What a partner answers on the connection of our own POST: a SOAP Fault, an Acknowledgment, Errors
(EB-067, EB-069 to EB-071)."""

import logging
from dataclasses import replace
from typing import cast

from msh.flows.sending.fly import AnswerEvent, Ended, FlightCopy
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
from msh.protocol.flight.answers import events_of
from msh.store import capacity
from msh.store.receiving import ebms2
from msh.store.sending.isolation import describe
from msh.transport.carrier import Finished
from msh.wire.ebms2.envelope import parse_answer
from msh.wire.text import prose
from partners.models import Partner

logger = logging.getLogger(__name__)

_SIGNALS = (Kind.ACKNOWLEDGMENT, Kind.MESSAGE_ERROR)


class _NotTakenError(Exception):
    """Why an answer counts for nothing: an operator may want to know it."""


def ended_with(one: Finished) -> Ended:
    """How the attempt of a copy ended, with what its answer says: nothing is written here. A Fault
    decides over the status. Raises only what says that the database is gone."""
    copy, result = cast("FlightCopy", one.job.key), one.outcome
    bare = replace(result, answer=None)
    if result.answer is None:
        return Ended(copy, bare)
    try:
        return _read(copy, bare, *result.answer)
    except _NotTakenError as why:
        return Ended(copy, bare, note=str(why))
    except Exception as error:
        if capacity.is_gone(error):
            raise
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
        return Ended(copy, _after_fault(result, read))
    return Ended(copy, result, _events(copy, read))


def _after_fault(result: AttemptResult, fault: SoapFault) -> AttemptResult:
    again = fault.code is FaultCode.SERVER
    outcome = AttemptOutcome.FAILED if again else AttemptOutcome.REFUSED
    detail = prose(f"SOAP Fault {fault.code}: {fault.text}")[:500]
    return replace(result, outcome=outcome, detail=detail)


def _events(copy: FlightCopy, received: ReceivedMessage) -> tuple[AnswerEvent, ...]:
    """It counts if it is about this message and of its agreement (EB-070)."""
    message = received.message
    about = message.acknowledged or message.header.ref_to_message_id
    if message.header.kind not in _SIGNALS:
        raise _NotTakenError(f"a {message.header.kind} in an answer is not supported")
    if about != copy.message_id:
        raise _NotTakenError(f"the answer is about message {about}")
    _check_sender(copy, received)
    reports = reports_of(message.errors)
    return events_of(about, reports, acknowledged=bool(message.acknowledgments))


def _check_sender(copy: FlightCopy, received: ReceivedMessage) -> None:
    header = received.message.header
    partner = Partner.objects.get(pk=copy.partner_id)
    found = ebms2.attribute([partner], header, authenticated=True)
    if found is None:
        raise _NotTakenError(f"the answer names no agreement of ours: {header.cpa_id}")
    defects = tolerated(received.defects, found.agreed)
    errors = errors_to_report(defects, found.agreed.lenient) or wrong_parties(
        found.agreed, header.from_party, header.to_party
    )
    if errors:
        raise _NotTakenError(f"the answer is wrong: {errors[0].description}")
    if found.agreement_id != copy.agreement_id:
        raise _NotTakenError("the answer is of another agreement than the message")
