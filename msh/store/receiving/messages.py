"""Receiving in the draft's dialect: messages, last numbers and pending signals are decided and
written under the lock of the link."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from msh.faults import CrashPoint, reach
from msh.models import SignalKind
from msh.protocol import effects as do
from msh.protocol import receiver, routing
from msh.protocol.admission import Postponed
from msh.protocol.message import Field, Header, PartialHeader
from msh.protocol.received import ReceivedMessage
from msh.protocol.receiver import Known, MessageArrived, ReceivingLink
from msh.protocol.vocabulary import ErrorCode
from msh.store import history, incidents
from msh.store.clock import read_clock
from msh.store.engine import Call, run
from msh.store.history import LINK, MESSAGE, HistoryRow
from msh.store.sending import signals
from msh.store.sending.submissions import mark_in_use
from msh.store.sending.upstream import failure_of_forwarded
from msh.wire import locate
from partners.models import Partner

from .accept import COUNT_DUPLICATE, store_calls
from .forwarding import mark_for_forwarding, read_next_hop
from .pairs import (
    SIGNAL_HORIZON,
    WRITE_LAST_NUMBER,
    Pair,
    inbound_link,
    last_number,
    lock_pair,
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
        event = (partner_id, "in", error.code, about.message_id)
        run(
            _error_call(link_id, error, about, number, now, expires_at),
            history.insert_or_count(HistoryRow(*event, detail=error.description, at=now)),
        )


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
    calls = [call for effect in effects for call in _calls_of(pair, effect, message)]
    if after != pair.receiving:
        number = last_number(pair.link_id, pair.receiving, after, message.header.message_id)
        calls.append(WRITE_LAST_NUMBER(**number))
    run(*calls)


def _calls_of(  # noqa: PLR0911  one for each effect
    pair: Pair, effect: do.ReceiverEffect, message: ReceivedMessage
) -> list[Call[object]]:
    header = message.header
    match effect:
        case do.Accept():
            columns = message_columns(message) | {
                "link_id": pair.link_id,
                "agreement_id": pair.agreement_id,
                "epoch": effect.epoch,
                "sequence_number": effect.sequence_number,
            }
            return store_calls(pair.partner_id, pair.now, columns, message.payloads)
        case do.SendOn():
            return [mark_for_forwarding(pair.link_id, header.message_id, effect.withheld)]
        case do.QueueAck():
            return [_ack_call(pair, header)]
        case do.QueueError():
            number = header.route.sequence_number
            return [
                _error_call(pair.link_id, effect, header, number, pair.now, pair.expires_at),
                _event(pair, header, effect.code, effect.description),
            ]
        case do.CountDuplicate():
            return [
                COUNT_DUPLICATE(key=pair.known_id),
                _event(pair, header, "DuplicateArrived", "discarded"),
            ]
        case do.OpenIncident():
            what = (effect.kind, effect.message_id, effect.detail)
            new = incidents.NewIncident(pair.partner_id, "in", *what, pair.now)
            return [incidents.open_incident(new)]
        case do.Note():
            return [_event(pair, header, "Note", effect.detail, LINK)]


def message_columns(message: ReceivedMessage) -> dict[str, object]:
    """Return the columns that are filled from the message itself."""
    header = message.header
    return {
        "message_id": header.message_id,
        "semantics": header.semantics,
        "conversation_id": header.conversation_id,
        "service_interface": header.service_interface,
        "action": header.action,
        "ref_to_message_id": header.ref_to_message_id,
        "sent_at": header.timestamp,
        "content_digest": message.content_digest,
        "header": message.header_document,
    }


def _ack_call(pair: Pair, header: Header) -> Call[None]:
    return signals.queue_signal(
        signals.NewSignal(
            pair.link_id,
            SignalKind.ACKNOWLEDGEMENT.value,
            header.message_id,
            header.tpa_id,
            header.conversation_id,
            header.route.sequence_number,
            pair.now,
            pair.expires_at,
        )
    )


def _error_call(
    link_id: int,
    error: do.QueueError,
    about: Header | PartialHeader,
    number: int | None,
    now: datetime,
    expires_at: datetime,
) -> Call[None]:
    return signals.queue_signal(
        signals.NewSignal(
            link_id,
            SignalKind.ERROR.value,
            about.message_id,
            about.tpa_id,
            about.conversation_id,
            number,
            now,
            expires_at,
            error.code,
            locate(error.field),
            error.description,
            error.min_retry_secs,
        )
    )


def _event(
    pair: Pair, header: Header, event: str, detail: str, subject: str = MESSAGE
) -> Call[None]:
    about = (pair.partner_id, "in", event, header.message_id)
    row = HistoryRow(*about, detail=detail, subject=subject, at=pair.now)
    return history.insert_or_count(row)
