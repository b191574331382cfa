"""What an operator submits: a corrected copy of a message that is cancelled, a message of its own
that says which one it stands for, because nothing is ever edited in place; and a test message, to
the partner like any other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db import transaction

from msh.flows.errors import NotPossible
from msh.flows.operations import cancel
from msh.flows.operations.inspection.raw_message import BytesMissing, payload_of
from msh.flows.sending.prepare import SubmitRefused
from msh.flows.sending.submit import submit
from msh.models import OutboundMessage, OutboundState
from msh.protocol.kinds import Verdict
from msh.protocol.message import Payload
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.history import Actor
from msh.store.sending.submissions import link_correction, record_act
from partners.models import Agreement


@dataclass(frozen=True, slots=True)
class Correction:
    """What is to be other than in the message: its purpose, and payloads by their position."""

    service_interface: str
    action: str
    payloads: Mapping[int, bytes] = field(default_factory=dict)


def why_not(message: OutboundMessage) -> str:
    if message.forwards_id:
        return "it is a forwarded message: its sender must correct it."
    if message.state not in (
        OutboundState.QUEUED,
        OutboundState.IN_FLIGHT,
        OutboundState.FLYING,
        OutboundState.CANCELLED,
    ):
        return f"the message is {message.get_state_display()}."
    copy = message.corrected_by.first()
    return f"message {copy} was already submitted instead." if copy else ""


def correct(
    message: OutboundMessage, correction: Correction, verdict: Verdict | None, actor: Actor
) -> OutboundMessage:
    """Cancel it if it is not, and submit the copy, which is returned.

    For one in flight a verdict is needed, as in `cancel.cancel`; it stays cancelled if the copy is
    refused after all, and can be corrected then. Raises NotPossible with a sentence.
    """
    if why := why_not(message):
        raise NotPossible(f"It cannot be corrected: {why}")
    payloads = _corrected(message, correction)
    _try_out(message, correction, payloads)
    if message.state == OutboundState.IN_FLIGHT:
        cancel.cancel(message, verdict, actor)  # may ask the partner: in no transaction
    with transaction.atomic():
        if message.state in (OutboundState.QUEUED, OutboundState.FLYING):
            cancel.cancel(message, verdict, actor)
        original = OutboundMessage.objects.select_for_update(no_key=True).get(pk=message.pk)
        if why := why_not(original):
            raise NotPossible(f"It cannot be corrected: {why}")
        copy = _submit(original, correction, payloads)
        link_correction(original, copy, actor)
    return copy


def _corrected(message: OutboundMessage, correction: Correction) -> list[Payload]:
    parts = list(message.payloads.defer("wire"))
    if not parts and message.size:
        raise NotPossible("Its payloads were removed by retention: submit a new message.")
    same_purpose = (correction.service_interface, correction.action) == (
        message.service_interface,
        message.action,
    )
    if same_purpose and not correction.payloads:
        raise NotPossible("Nothing was corrected: replace at least one payload.")
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
        raise NotPossible(f"The corrected copy was refused: {refused}.") from None


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
