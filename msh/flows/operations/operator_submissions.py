"""Messages that operators submit: a copy of a message that ended, as it was or corrected; and a
test message, which to the partner is like any other. A copy is a message of its own that names its
original, because nothing is ever edited in place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db import transaction
from django.utils import timezone

from msh.flows.errors import NotPossible
from msh.flows.operations import cancel
from msh.flows.operations.inspection.flights import flight_of
from msh.flows.operations.inspection.raw_message import BytesMissing, payload_of
from msh.flows.sending.prepare import SubmitRefused
from msh.flows.sending.submit import submit
from msh.models import OutboundLink, OutboundMessage, OutboundState
from msh.protocol.flight.value import FlightState
from msh.protocol.kinds import Verdict
from msh.protocol.message import Payload
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.history import Actor
from msh.store.sending.submissions import link_copy, record_act
from partners.models import Agreement


@dataclass(frozen=True, slots=True)
class Correction:
    """The differences from the original: its purpose, and payloads by their position."""

    service_interface: str
    action: str
    payloads: Mapping[int, bytes] = field(default_factory=dict)


ENDED = (OutboundState.CANCELLED, OutboundState.FAILED)
"""Nothing more of them is sent, and nobody says that the partner has them."""
_OPEN = (OutboundState.QUEUED, OutboundState.IN_FLIGHT, OutboundState.FLYING)


def why_not_corrected(message: OutboundMessage) -> str:
    """As a clause with a full stop; empty if it may be."""
    return _why_not(message, (*_OPEN, *ENDED))


def why_not_again(message: OutboundMessage) -> str:
    """As a clause with a full stop; empty if it may be submitted again as it was: if it ended, or
    if it is held and no further copy of it may be sent."""
    return _why_not(message, (*ENDED, OutboundState.FLYING) if _is_lapsed(message) else ENDED)


def _is_lapsed(message: OutboundMessage) -> bool:
    if message.state != OutboundState.FLYING:
        return False
    flight = flight_of(message)
    held = flight is not None and flight.state is FlightState.HELD
    return held and bool(flight and flight.why_not_sent_again(timezone.now()))


def is_cancelled_first(message: OutboundMessage) -> bool:
    """Whether a verdict is needed to submit it again."""
    return message.holds_up or message.state == OutboundState.FLYING


def _why_not(message: OutboundMessage, states: Sequence[OutboundState]) -> str:
    if message.forwards_id:
        return "it is a forwarded message: its sender must submit a new one."
    if message.state not in states:
        return f"the message is {message.get_state_display()}."
    copy = message.corrected_by.first()
    return f"message {copy} was already submitted instead." if copy else ""


def submit_again(
    message: OutboundMessage, actor: Actor, verdict: Verdict | None = None
) -> OutboundMessage:
    """Submit a message that has ended again: a new one with the same payloads and headers.

    One that holds up its conversation is cancelled with a verdict, as in `cancel.cancel`. Raises
    NotPossible with a sentence.
    """
    same = Correction(message.service_interface, message.action)
    return _replace(message, same, verdict, actor, why_not_again)


def correct(
    message: OutboundMessage, correction: Correction, verdict: Verdict | None, actor: Actor
) -> OutboundMessage:
    """Cancel it if it has not ended, and submit the copy, which is returned.

    For one in flight a verdict is needed, as in `cancel.cancel`; it stays cancelled if the copy is
    refused after all, and can be corrected then. Raises NotPossible with a sentence.
    """
    purpose = (message.service_interface, message.action)
    if purpose == (correction.service_interface, correction.action) and not correction.payloads:
        raise NotPossible("Nothing was corrected: replace at least one payload.")
    return _replace(message, correction, verdict, actor, why_not_corrected)


def _replace(
    message: OutboundMessage,
    correction: Correction,
    verdict: Verdict | None,
    actor: Actor,
    why_not: Callable[[OutboundMessage], str],
) -> OutboundMessage:
    _require(message, why_not)
    payloads = _payloads(message, correction)
    _try_out(message, correction, payloads)
    if message.state == OutboundState.IN_FLIGHT:
        cancel.cancel(message, verdict, actor)  # may ask the partner: in no transaction
    with transaction.atomic():
        OutboundLink.objects.select_for_update(no_key=True).get(pk=message.link_id)
        if message.state in (OutboundState.QUEUED, OutboundState.FLYING) or message.holds_up:
            cancel.cancel(message, verdict, actor)
        original = OutboundMessage.objects.select_for_update(no_key=True).get(pk=message.pk)
        _require(original, why_not)
        copy = _submit(original, correction, payloads)
        link_copy(original, copy, actor)
    return copy


def _require(message: OutboundMessage, why_not: Callable[[OutboundMessage], str]) -> None:
    if why := why_not(message):
        raise NotPossible(f"Message {message} cannot be submitted again: {why}")


def _payloads(message: OutboundMessage, correction: Correction) -> list[Payload]:
    parts = list(message.payloads.defer("wire", "encrypted"))
    if not parts and message.size:
        raise NotPossible("Its payloads were removed by retention: submit a new message.")
    try:
        return [
            Payload(
                correction.payloads.get(part.position)
                or payload_of(message, part.position).content,
                content_type=part.content_type,
                content_id=part.content_id,
                label=part.label,
                description=part.description,
            )
            for part in parts
        ]
    except BytesMissing as missing:
        raise NotPossible(str(missing)) from None


def _try_out(message: OutboundMessage, correction: Correction, payloads: Sequence[Payload]) -> None:
    with transaction.atomic():
        _submit(message, correction, payloads)
        transaction.set_rollback(True)


def _submit(
    message: OutboundMessage, correction: Correction, payloads: Sequence[Payload]
) -> OutboundMessage:
    try:
        return submit(
            message.agreement,
            correction.service_interface,
            correction.action,
            payloads,
            conversation_id=message.conversation_id,
            ref_to_message_id=message.ref_to_message_id,
            semantics=DeliverySemantics(message.semantics),
            from_role=message.from_role or None,
            to_role=message.to_role or None,
            service_type=message.service_type or None,
        )
    except SubmitRefused as refused:
        raise NotPossible(f"The copy of message {message} was refused: {refused}.") from None


def send_test_message(
    agreement: Agreement, actor: Actor, service_interface: str, action: str, text: str
) -> OutboundMessage:
    """Raises NotPossible for what cannot be submitted."""
    payload = Payload(text.encode(), content_type="text/plain", label="test.txt")
    try:
        with transaction.atomic():
            message = submit(agreement, service_interface, action, [payload])
            record_act(message, "TestSubmitted", "a test message", actor)
    except SubmitRefused as refused:
        raise NotPossible(str(refused)) from None
    return message
