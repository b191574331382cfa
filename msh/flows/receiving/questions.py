"""Ping and StatusRequest of ours, over the network: call it outside of any transaction.

A question is sent once, and answered on its connection or by a POST of its own; then the process
that takes the POST writes it into the history, where the one that asks finds it.
"""

import time
import uuid
from dataclasses import dataclass

from django.utils import timezone

from msh.flows.errors import NotPossible
from msh.flows.sending.copies import To, job_of
from msh.models import History, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.ebms import signals
from msh.protocol.ebms.agreement import NO_SYNC, is_between
from msh.protocol.ebms.errors import NotAMessage, Unusable
from msh.protocol.ebms.message import Message, SoapFault
from msh.protocol.ebms.services import about_and_said
from msh.protocol.ebms.vocabulary import SERVICE, Kind
from msh.store import history
from msh.store.history import Actor, HistoryRow
from msh.store.receiving.ebms2 import attribution_under
from msh.store.receiving.ebms2_answers import signal_about
from msh.transport import once
from msh.transport.job import SIGNAL_CRASH_POINTS
from msh.transport.registry import UnknownSchemeError
from msh.wire.dialect import Entity, dialect_named
from msh.wire.ebms2.envelope import compose_alone, parse_answer
from msh.wire.text import prose
from partners.models import Agreement, Partner, our_identity
from partners.models.dialects import settings_of
from partners.secrecy import SecretUnreadableError

PATIENCE = 60.0
"""Seconds in which an answer counts (EB-147)."""
PATIENCE_OF_A_PAGE = 15.0
"""Seconds that a person waits, in a thread of the web."""
NO_ANSWER = "no answer"
_LOOK_EVERY = 0.1  # seconds between two looks for an answer by a POST
_ANSWER_LIMIT = 1024 * 1024  # bytes
_DETAIL_LIMIT = 300  # characters


@dataclass(frozen=True, slots=True)
class Said:
    """The answer of a partner: Pong, a MessageStatus or NO_ANSWER; the seconds until it came; and
    details, or why there is no answer."""

    answer: str
    seconds: float
    detail: str = ""

    @property
    def is_answer(self) -> bool:
        return self.answer != NO_ANSWER


class _NoAnswer(Exception):
    """Why not."""


def ping(partner: Partner, patience: float = PATIENCE, tpa_id: str = "", address: str = "") -> Said:
    """Under this agreement, or the first one; at this address, or where Pings go. Raises
    NotPossible for a partner whose dialect has no Ping, or that has no such agreement."""
    agreements = partner.agreements.filter(tpa_id=tpa_id) if tpa_id else partner.agreements
    agreement = agreements.order_by("pk").first()
    if agreement is None:
        named = f"agreement {tpa_id}" if tpa_id else "agreement"
        raise NotPossible(f"Partner {partner.name} has no {named}.")
    return _Question(agreement, patience, address=address).ask()


def address_of_ping(agreement: Agreement) -> str:
    """Where a Ping under this agreement goes."""
    return agreement.address_of(SERVICE, str(Kind.PING)) or agreement.partner.destination


def ask_status(message: OutboundMessage, actor: Actor, patience: float = PATIENCE) -> Said:
    """Ask the partner for the status of a message of ours. The answer is recorded in the history of
    the message and completes nothing (EB-146). Raises NotPossible."""
    question = _Question(message.agreement, patience, message.message_id)
    if message.first_sent_at is None:
        raise NotPossible(f"Message {message.message_id} was not sent yet.")
    question.record("StatusRequested", "", actor)
    return question.ask()


def why_not_asked(agreement: Agreement) -> str:
    """Empty if the MSH of its partner can be asked."""
    if settings_of(agreement.dialect).has_ping:
        return ""
    return f"dialect {agreement.dialect} has neither Ping nor StatusRequest."


class _Question:
    def __init__(
        self, agreement: Agreement, patience: float, about: str = "", address: str = ""
    ) -> None:
        partner = agreement.partner
        if why := why_not_asked(agreement):
            raise NotPossible(f"Partner {partner.name} cannot be asked: {why}")
        self._agreement, self._patience, self._about = agreement, patience, about
        self._address = address
        self._found = attribution_under(agreement)
        self._kind = Kind.STATUS_REQUEST if about else Kind.PING
        of_its_own = ("", str(uuid.uuid4()))
        self._signal = signal_about(self._found, self._kind, timezone.now(), *of_its_own)
        self._answer = Kind.STATUS_RESPONSE if about else Kind.PONG

    def record(self, event: str, detail: str, actor: Actor = history.ITSELF) -> None:
        """Record the answer in the history of the message that it is about."""
        detail = history.with_reason(f"{detail}; asked by {self._signal.message_id}", actor)
        about = (self._agreement.partner_id, "out", event, self._about)
        history.record(HistoryRow(*about, detail=detail, actor=actor.name))

    def ask(self) -> Said:
        began = time.monotonic()
        try:
            result = self._post()
            said = self._read(result)
            if said is None:
                said = self._wait(began)
        except _NoAnswer as why:
            return Said(NO_ANSWER, time.monotonic() - began, prose(str(why))[:_DETAIL_LIMIT])
        answer, _, detail = said.partition(", ")
        return Said(answer or str(self._answer), time.monotonic() - began, detail)

    def _message(self) -> Message:
        sync_reply = self._agreement.sync_reply != NO_SYNC
        if self._about:
            return signals.status_request(self._signal, self._about, sync_reply=sync_reply)
        return signals.ping(self._signal, sync_reply=sync_reply)

    def _post(self) -> AttemptResult:
        partner = self._found.partner
        headers = dialect_named(self._agreement.dialect).headers
        entity = Entity(*compose_alone(self._message()), headers)
        try:
            job = job_of(
                To(partner.pk, partner, our_identity()),
                None,
                entity,
                self._patience,
                url=self._address or self._agreement.address_of(SERVICE, str(self._kind)),
                answer_limit=_ANSWER_LIMIT,
                crash_points=SIGNAL_CRASH_POINTS,
            )
            return once.post(job)
        except (UnknownSchemeError, SecretUnreadableError) as problem:
            raise _NoAnswer(str(problem)) from None

    def _read(self, result: AttemptResult) -> str | None:
        """Return the answer on the connection; None if it may still come by a POST."""
        try:
            read = parse_answer(*result.answer) if result.answer else None
        except (NotAMessage, Unusable):
            read = None  # a page of a front end; the status stands
        if isinstance(read, SoapFault):
            raise _NoAnswer(f"SOAP Fault {read.code}: {read.text}")
        if read is not None:
            return self._said(read.message)
        if result.outcome is not AttemptOutcome.TRANSMITTED:
            raise _NoAnswer(result.detail)
        return None

    def _said(self, message: Message) -> str:
        header = message.header
        if message.errors:
            raise _NoAnswer(f"{message.errors[0].code}: {message.errors[0].description}")
        about, said = about_and_said(message)
        is_ours = (
            header.kind is self._answer
            and header.cpa_id == self._signal.cpa_id
            and header.ref_to_message_id == self._signal.message_id
            and about == (self._about or self._signal.message_id)
            and is_between(self._found.agreed, header.from_party, header.to_party)
        )
        if not is_ours:
            raise _NoAnswer(f"the answer is a {header.kind} about {header.ref_to_message_id}")
        if self._about:
            self.record(f"{header.kind}Received", said)
        return said

    def _wait(self, began: float) -> str:
        while time.monotonic() - began < self._patience:
            if (said := self._posted()) is not None:
                return said
            time.sleep(_LOOK_EVERY)
        raise _NoAnswer(f"no answer within {self._patience:g} s")

    def _posted(self) -> str | None:
        asked = f"; asked by {self._signal.message_id}"
        about = self._about or self._signal.message_id
        rows = History.objects.of_message(about).filter(
            partner=self._found.partner,
            event=f"{self._answer}Received",
            detail__endswith=asked,
        )
        detail = rows.values_list("detail", flat=True).first()
        return None if detail is None else detail.removesuffix(asked)
