"""PARTNER → MSH: the bytes of one request in ebMS 2.0, from reading them to the answer."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from msh import trace_hook
from msh.allowance import Limited, questions
from msh.flows.sending.answered import hear, take_answers
from msh.flows.sending.proof import Opening, counting, opened
from msh.flows.wake_up import WakeUp, wake_up
from msh.protocol.ebms.agreement import NO_SYNC, tolerated, wrong_parties
from msh.protocol.ebms.errors import NotAMessage, Unusable
from msh.protocol.ebms.message import (
    Defect,
    Error,
    Message,
    MessageHeader,
    PartialHeader,
    ReceivedMessage,
    errors_to_report,
)
from msh.protocol.ebms.services import about_and_said
from msh.protocol.ebms.vocabulary import FaultCode, Stage
from msh.protocol.reason import Refusal
from msh.store.receiving import ebms2
from msh.store.receiving.ebms2_answers import Attribution
from msh.store.receiving.ebms2_fast_path import accept_at_once, find_agreement
from msh.store.receiving.ebms2_services import answer_question
from msh.store.receiving.refusals import note, note_refused, refusal_event, refuse_answer
from msh.wire.dialect import answer_of, fault
from msh.wire.ebms2.envelope import parse
from partners.models import Partner

from .incoming import TAKEN, Answer, Incoming, taken_at_once

_lines = Limited(logging.getLogger(__name__))

_ANSWERED = 200
_FAULT = 500
_FORBIDDEN = 403
_LATER = 503


@dataclass(frozen=True, slots=True)
class _Senders:
    """The partners that may have sent a request: one by its credential, or some by their network
    (EB-190). `by_mail`: there is no connection to answer on (EB-162)."""

    partners: Sequence[Partner]
    authenticated: bool
    by_mail: bool = False

    def attribute(self, header: MessageHeader | PartialHeader) -> Attribution | None:
        found = ebms2.attribute(self.partners, header, authenticated=self.authenticated)
        if found is None or not self.by_mail:
            return found
        return replace(found, agreed=replace(found.agreed, sync_reply=NO_SYNC))

    def note_refused(self, refusal: Refusal, status: int, reason: str) -> None:
        """Record a request that is no message, if there is no doubt who sent it."""
        if len(self.partners) == 1:
            event = "MailRefused" if self.by_mail else "RequestRefused"
            note_refused(self.partners[0].pk, event, refusal, f"{status}: {reason}")
        else:
            self.log(f"refused: {status}: {reason}", refusal)

    def log(self, text: str, refusal: Refusal) -> None:
        """Log what one of several partners has sent: nobody knows which."""
        names = [partner.name for partner in self.partners[:3]]
        more = ", …" if len(self.partners) > len(names) else ""
        _lines.warning(f"one of {', '.join(names)}{more}", text, code=refusal)


def receive_fast_path(partner: Partner, incoming: Incoming) -> Answer | None:
    """Take a message, a new one mostly in one statement or two, or a signal. `partner` may be a
    cached one. Returns None, with nothing done, for input that cannot be used, and if the partner
    has changed. Raises RefusedTooOften."""
    try:
        received = incoming.read(parse)
    except (NotAMessage, Unusable):
        return None
    is_signal = received.message.header.kind.is_signal
    _trace(partner, received.message)
    if is_signal:
        found = find_agreement(partner, received.message)
        return None if found is None else _heard(found, _take_signal(found, received))
    opening = Opening(received)
    taken = accept_at_once(partner, received, opening)
    if taken is None:
        return None
    if isinstance(taken, Attribution):
        return _heard(taken, _take_message(taken, opening))
    return taken_at_once(partner.pk, taken)


def receive(partner: Partner, incoming: Incoming) -> Answer:
    """Take a message or signal from `partner`; its answer is committed on return.
    Raises RefusedTooOften: nothing is stored then."""
    return _receive(_Senders((partner,), authenticated=True), incoming)


def receive_by_mail(partner: Partner, incoming: Incoming) -> Answer:
    """As `receive`."""
    return _receive(_Senders((partner,), authenticated=True, by_mail=True), incoming)


def receive_from_network(partners: Sequence[Partner], incoming: Incoming) -> Answer:
    """Like `receive`, for a request whose network fits several partners."""
    return _receive(_Senders(partners, authenticated=False), incoming)


def _receive(senders: _Senders, incoming: Incoming) -> Answer:
    try:
        received = incoming.read(parse)
    except NotAMessage as problem:
        return _not_a_message(senders, problem)
    except Unusable as problem:
        return _refuse_unusable(senders, problem)
    header = received.message.header
    found = senders.attribute(header)
    if found is None:
        return _refuse_unknown(senders, header)
    _trace(found.partner, received.message)
    if header.kind.is_signal:
        if senders.by_mail:
            received = replace(received, message=replace(received.message, sync_reply=False))
        return _heard(found, _take_signal(found, received))
    return _heard(found, _take_message(found, Opening(received)))


def _heard(found: Attribution, answer: Answer) -> Answer:
    if found.unreached:
        hear(found.partner.pk)
    return answer


def _trace(partner: Partner, message: Message) -> None:
    if trace_hook.recorder is not None:
        with trace_hook.harmless():
            header = message.header
            about = _about(message) if header.kind.is_signal else ""
            kind = header.kind.value
            trace_hook.recorder.note_message(partner.pk, header.message_id, kind, about)


def _not_a_message(senders: _Senders, problem: NotAMessage) -> Answer:
    reason = str(problem)
    senders.note_refused(problem.refusal, problem.status, reason)
    if problem.status != _FAULT:
        return Answer(problem.status, reason)
    return Answer(_FAULT, reason, fault(problem.code, reason))


def _refuse_unknown(senders: _Senders, header: MessageHeader | PartialHeader) -> Answer:
    """Nothing is stored of it, and nothing is sent to anybody (EB-064)."""
    reason = f"no agreement {header.cpa_id!r} between these parties"
    if senders.authenticated:
        partner_id = senders.partners[0].pk
        note(partner_id, "", "MessageOfNoAgreement", reason, code=Refusal.AGREEMENT)
    else:
        senders.log(f"{reason} with a partner of this network", Refusal.AGREEMENT)
    if senders.authenticated:
        return Answer(_FORBIDDEN, reason, fault(FaultCode.SERVER, reason))
    return Answer(_FAULT, reason, fault(FaultCode.CLIENT, reason))


def _refuse_unusable(senders: _Senders, problem: Unusable) -> Answer:
    """A MessageHeader that lacks what is needed: answered by an Error, if it can be."""
    partial, reason, error = problem.partial, str(problem), problem.defects[0].error
    found = senders.attribute(partial)
    if found is None:
        return _refuse_unknown(senders, partial)
    if partial.kind.is_signal:
        event = refusal_event(partial.kind)
        note(found.partner.pk, partial.message_id, event, reason, code=error.code)
        return Answer(TAKEN, reason)
    if not partial.message_id:
        senders.note_refused(Refusal.DOCUMENT, _FAULT, reason)
        return Answer(_FAULT, reason, fault(FaultCode.CLIENT, reason))
    ebms2.refuse(found, partial, _errors(found, problem.defects) or (error,))
    wake_up(WakeUp.TRANSMIT)
    return Answer(TAKEN, reason)


def _errors(found: Attribution, defects: tuple[Defect, ...]) -> tuple[Error, ...]:
    return errors_to_report(tolerated(defects, found.agreed), found.agreed.lenient)


def _take_message(found: Attribution, opening: Opening) -> Answer:
    """Take a business message. An Acknowledgment or ErrorList on it counts, even if the message is
    refused (EB-088)."""
    received = opening(found.agreed)
    taken = ebms2.receive_message(found, received)
    take_answers(found.partner.pk, found.agreement_id, counting(found, received))
    if taken.wait is not None:
        return Answer(_LATER, taken.refusal, wait=taken.wait)
    wake_up(
        *([WakeUp.TRANSMIT] if taken.answer is None else []),
        *([WakeUp.DELIVER] if taken.accepted else []),
    )
    if taken.answer is None:
        return Answer(TAKEN, taken.refusal)
    answer = taken.answer
    return Answer(_ANSWERED, taken.refusal, answer_of(answer.content_type, bytes(answer.body)))


def _take_signal(found: Attribution, received: ReceivedMessage) -> Answer:
    """Take a signal. It is never answered by an Error, whatever is wrong with it (EB-062)."""
    received = opened(found.agreed, received)
    header, kind = received.message.header, received.message.header.kind
    errors = _errors(found, _defects(received)) or wrong_parties(
        found.agreed, header.from_party, header.to_party
    )
    if errors:
        return _refuse_signal(found, received.message, errors[0])
    if kind.asks:
        return _answer_question(found, received)
    if kind.answers:
        take_answers(found.partner.pk, found.agreement_id, counting(found, received))
    else:
        _note_reply(found, received.message)
    return Answer(TAKEN)


def _refuse_signal(found: Attribution, message: Message, error: Error) -> Answer:
    header, partner_id = message.header, found.partner.pk
    event, code, reason = refusal_event(header.kind), error.code, error.description
    about = _about(message)
    if not (header.kind.answers and refuse_answer(partner_id, about, event, reason, code)):
        note(partner_id, header.message_id, event, reason, code=code)
    return Answer(TAKEN, reason)


def _note_reply(found: Attribution, message: Message) -> None:
    """A Pong or StatusResponse, for the one that has asked (`questions.py`)."""
    header = message.header
    about, said = about_and_said(message)
    detail = f"{said}; asked by {header.ref_to_message_id}"
    direction = "in" if message.status_response is None else "out"
    note(found.partner.pk, about, f"{header.kind}Received", detail, direction)


def _defects(received: ReceivedMessage) -> tuple[Defect, ...]:
    """A question may come with what only a message of a business has (EB-145)."""
    if not received.message.header.kind.asks:
        return received.defects
    return tuple(one for one in received.defects if one.stage in (Stage.SIGNATURE, Stage.HEADER))


def _answer_question(found: Attribution, received: ReceivedMessage) -> Answer:
    """Sent once, on the connection or by a POST; one that asks too often is not answered."""
    partner_id, message = found.partner.pk, received.message
    if questions.wait(partner_id):
        note(partner_id, "", f"{message.header.kind}NotAnswered", "too many")
        return Answer(TAKEN)
    questions.spend(partner_id)
    answer = answer_question(found, message)
    if answer is not None:
        return Answer(_ANSWERED, entity=answer_of(answer.content_type, answer.body))
    wake_up(WakeUp.TRANSMIT)
    return Answer(TAKEN)


def _about(message: Message) -> str:
    """The MessageId that a signal is about, empty if it names none."""
    named = (one.message_id for one in message.answers)
    return next(named, message.header.ref_to_message_id)
