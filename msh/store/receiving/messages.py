"""Receiving in the draft's dialect: messages, last numbers and pending signals are decided and
written under the lock of the link."""

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction

from msh.faults import CrashPoint, reach
from msh.protocol import effects as do
from msh.protocol import receiver, routing
from msh.protocol.admission import Postponed
from msh.protocol.message import Field, Header, PartialHeader
from msh.protocol.received import ReceivedMessage
from msh.protocol.receiver import Known, MessageArrived, ReceivingLink
from msh.protocol.vocabulary import ErrorCode
from msh.store.clock import read_clock
from msh.store.engine import run
from msh.store.history import LINK, MESSAGE
from msh.store.sending.submissions import mark_in_use
from msh.store.sending.upstream import failure_of_forwarded
from partners.models import Partner

from . import message_sql
from .forwarding import read_next_hop
from .pairs import SIGNAL_HORIZON, Pair, inbound_link, lock_pair
from .receiver_effects import (
    calls_of,
    error_call,
    history_call,
    last_number,
)
from .refusals import spend_refusal


@dataclass(frozen=True, slots=True)
class Received:
    """The result for a message. `refusal`: why it was not taken. `routed`: it is to be forwarded,
    not delivered."""

    accepted: bool
    refusal: str = ""
    routed: bool = False


def receive_message(partner: Partner, message: ReceivedMessage) -> Received:
    """Store a Normal message, or not, by the Receiver's table; queue its answer; commit.

    Raises RefusedTooOften, with nothing done, for one refusal too many, and the damage of a
    message that is no copy of one that we have.
    """
    with transaction.atomic():
        pair = lock_pair(partner, message)
        # Only a copy of a stored message is answered in spite of damage: by its Ack (000-013, D45).
        if message.damage and pair.known in (Known.NO, Known.OTHER):
            raise message.damage
        # The MessageId is checked before the agreement: a copy gets its Ack also if the agreement
        # was deleted meanwhile.
        if pair.agreement_id is None and pair.known in (Known.NO, Known.OTHER):
            error = do.QueueError(ErrorCode.SECURITY_FAILURE, *_no_agreement(message.header))
            effects: tuple[do.ReceiverEffect, ...] = (error,)
            after = pair.receiving
        else:
            after, effects = _decide(pair, message, pair.postponed(partner, message))
        errors = [effect for effect in effects if isinstance(effect, do.QueueError)]
        for error in errors:
            spend_refusal(partner.pk, pair.link_id, error.code, message.header.message_id)
        _write(pair, after, effects, message)
        # The partner's row last, in the order of row locks.
        mark_in_use(partner)
        reach(CrashPoint.RECEIVE_BEFORE_COMMIT)
    reach(CrashPoint.RECEIVE_AFTER_COMMIT)
    accepted = any(isinstance(effect, do.Accept) for effect in effects)
    routed = any(isinstance(effect, do.SendOn) for effect in effects)
    return Received(accepted, errors[0].description if errors else "", routed)


def queue_error(
    partner_id: int, error: do.QueueError, about: Header | PartialHeader, number: int | None
) -> None:
    """Queue an Error Message for a message that could not be read far enough to be decided on.
    Raises RefusedTooOften."""
    with transaction.atomic():
        link_id = inbound_link(partner_id)
        spend_refusal(partner_id, link_id, error.code, about.message_id)
        now = read_clock()
        expires_at = now + timedelta(seconds=SIGNAL_HORIZON)
        event = history_call(
            partner_id, now, about.message_id, error.code, error.description, counts=True
        )
        run(error_call(link_id, error, about, number, now, expires_at), event)


def note_unexpected(partner_id: int, message_id: str, event: str, detail: str) -> None:
    subject = MESSAGE if message_id else LINK
    run(history_call(partner_id, None, message_id, event, detail, subject=subject, counts=True))


def _no_agreement(header: Header) -> tuple[Field, str]:
    text = (
        f"no agreement {header.tpa_id!r} between {header.from_party.party_id!r} and"
        f" {header.to_party.party_id!r} with this partner"
    )
    return Field.TPA_ID, text


def _decide(
    pair: Pair, message: ReceivedMessage, postponed: Postponed | None
) -> tuple[ReceivingLink, tuple[do.ReceiverEffect, ...]]:
    # A router has stored this message and not forwarded it yet, end to end: no Ack before the next
    # MSH has acknowledged (000 §4.1.1).
    if pair.known is Known.WITHHELD and pair.known_id is not None:
        return routing.repeated(pair.receiving, failure_of_forwarded(pair.known_id))
    header = message.header
    number = header.route.sequence_number
    if header.reliable and number is not None:
        first = pair.on_unexpected_first
        event = MessageArrived(header.message_id, number, pair.known, first, postponed)
        outcome = receiver.step(pair.receiving, event)
    else:
        best_effort = receiver.best_effort(header.message_id, pair.known, postponed)
        outcome = pair.receiving, best_effort
    if pair.route_id is None or pair.agreement_id is None:
        return outcome
    next_hop = read_next_hop(pair.agreement_id, message, pair.now)
    return routing.router_outcome(pair.receiving, outcome, next_hop, header.message_id)


def _write(
    pair: Pair,
    after: ReceivingLink,
    effects: tuple[do.ReceiverEffect, ...],
    message: ReceivedMessage,
) -> None:
    calls = [call for effect in effects for call in calls_of(pair, effect, message)]
    if after != pair.receiving:
        number = last_number(pair.link_id, pair.receiving, after, message.header.message_id)
        calls.append(message_sql.WRITE_LAST_NUMBER.of(number))
    run(*calls)
