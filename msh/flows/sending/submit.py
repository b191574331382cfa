"""Application → MSH: store the message first (000 §2.1.3 (1)), send it later."""

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Unpack

from django.db import connection, transaction

from msh import trace_hook
from msh.faults import CrashPoint, reach
from msh.flows.sending.prepare import Roles, SubmitRefused, prepare_heading, prepare_message
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import OutboundMessage, SubmittedId
from msh.protocol.message import Payload
from msh.protocol.reason import Refusal
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.clock import read_clock
from msh.store.sending.submissions import NewMessage, insert_message, use_outbound_link
from partners.models import Agreement, Partner


class PartnerClosed(SubmitRefused):
    """An operator has refused submissions to the partner."""

    code = Refusal.CLOSED

    def __init__(self, partner: Partner) -> None:
        super().__init__(
            f"submissions to partner {partner} are refused until an operator accepts them again",
            "partner",
        )


class AgreementEnded(SubmitRefused):
    """The end of the agreement has passed (EB-197)."""

    code = Refusal.ENDED

    def __init__(self, agreement: Agreement) -> None:
        super().__init__(
            f"agreement {agreement} has ended: no messages can be submitted under it", "tpa_id"
        )


class MessageIdReused(SubmitRefused):
    """The MessageId was submitted before, with other content."""

    code = Refusal.MESSAGE_ID_REUSED


def submit(
    agreement: Agreement,
    service_interface: str,
    action: str,
    payloads: Sequence[Payload],
    *,
    message_id: str | None = None,
    conversation_id: str | None = None,
    ref_to_message_id: str = "",
    semantics: DeliverySemantics | None = None,
    **roles: Unpack[Roles],
) -> OutboundMessage:
    """Queue a message in the caller's transaction, or in one of its own.

    Returns the stored row. The same MessageId with the same content returns the row of the first
    time, or if retention has removed it, what is known of it; with other content it raises
    MessageIdReused. Raises SubmitRefused for what cannot be
    sent. No number is consumed: that happens at the first transmission (D18).
    """
    heading = prepare_heading(agreement, service_interface, action, semantics, roles)
    ids = (message_id, conversation_id, ref_to_message_id)
    message, _ = keep(prepare_message(heading, payloads, *ids))
    return message


def keep(new: NewMessage) -> tuple[OutboundMessage, bool]:
    """Queue what was prepared; its row, and whether it is new. Raises MessageIdReused."""
    heading = new.heading
    message = OutboundMessage(
        agreement=heading.agreement,
        message_id=new.message_id,
        semantics=heading.semantics,
        conversation_id=new.conversation_id,
        service_interface=heading.service_interface,
        action=heading.action,
        ref_to_message_id=new.ref_to_message_id,
        content_digest=new.content_digest,
        boundary=new.boundary,
        from_role=heading.from_role,
        to_role=heading.to_role,
        service_type=heading.service_type,
    )
    reach(CrashPoint.SUBMIT_BEFORE_COMMIT)
    stored = message
    inserted = insert_message(message, new.payloads, new.parts, new.digests)
    if inserted is None:
        stored = _first_or_known(message, new)
    is_next = inserted is None or not inserted.is_behind or connection.in_atomic_block
    is_new = stored is message
    transaction.on_commit(partial(_after_commit, new, is_new=is_new, is_next=is_next))
    return stored, is_new


def _after_commit(new: NewMessage, *, is_new: bool, is_next: bool) -> None:
    """What is queued behind others is sent after them, and needs no wake-up. Not so if its own
    transaction goes on: they may all be sent before it commits."""
    reach(CrashPoint.SUBMIT_AFTER_COMMIT)
    partner_id = new.heading.agreement.partner_id
    if is_new and trace_hook.recorder is not None:
        trace_hook.recorder.submitted(new.message_id, partner_id)
    if new.heading.flies:
        wake_up(flights=[partner_id])
    elif new.heading.semantics == DeliverySemantics.BEST_EFFORT:  # it is on no link
        wake_up(WakeUp.TRANSMIT)
    elif is_next:
        wake_up(links=[partner_id])


def _first_or_known(message: OutboundMessage, new: NewMessage) -> OutboundMessage:
    with transaction.atomic():
        link = use_outbound_link(message.agreement.partner)
        if insert_message(message, new.payloads, new.parts, new.digests):
            return message
        of_link = {"link": link, "message_id": message.message_id}
        if known := OutboundMessage.objects.filter(**of_link).first():
            _require_same(known, message)
            return known
        if removed := SubmittedId.objects.filter(**of_link).first():
            _require_same(removed, message)
            return _as_it_was(message, removed)
        agreement = Agreement.objects.filter(pk=message.agreement_id).first()
        if agreement is None:
            raise SubmitRefused(
                (f"agreement {message.agreement} was deleted in the meantime"), "agreement"
            )
        if agreement.has_ended(read_clock()):
            raise AgreementEnded(agreement)
        raise PartnerClosed(message.agreement.partner)


def _as_it_was(message: OutboundMessage, removed: SubmittedId) -> OutboundMessage:
    """Return a message that is not in the database any more, as far as it is known."""
    known = copy(message)
    known.pk, known.link_id, known.state = removed.key, removed.link_id, removed.state
    known.submitted_at, known.completed_at = removed.submitted_at, removed.ended_at
    return known


def _require_same(known: OutboundMessage | SubmittedId, message: OutboundMessage) -> None:
    if bytes(known.content_digest) != bytes(message.content_digest):
        raise MessageIdReused(
            f"MessageId {known.message_id} was submitted before with other content: use a new"
            " MessageId for the changed message",
            "message_id",
        )
