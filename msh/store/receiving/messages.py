"""What we receive: accepted messages, last numbers, signals owed. Decided and written at once."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from msh.faults import CrashPoint, reach
from msh.models import InboundLink, SignalKind
from msh.models.inbound import UNACKNOWLEDGED
from msh.protocol import effects as do
from msh.protocol import receiver, routing
from msh.protocol.admission import Postponed, admission
from msh.protocol.kinds import OnUnexpectedFirst
from msh.protocol.message import Field, Header, ReceivedMessage
from msh.protocol.receiver import Known, MessageArrived, ReceivingLink
from msh.protocol.vocabulary import ErrorCode
from msh.store import capacity, history, incidents
from msh.store.clock import read_clock
from msh.store.engine import Call, run
from msh.store.history import LINK, MESSAGE, HistoryRow
from msh.store.sending import signals
from msh.store.sending.submissions import mark_in_use
from msh.store.sending.upstream import failure_of_forwarded
from msh.wire import locate
from partners.models import Partner

from . import message_sql
from .forwarding import mark_for_forwarding, read_next_hop
from .message_sql import InboundRow, LastNumber
from .refusals import spend_refusal

SIGNAL_HORIZON = 60
"""Seconds for which a signal is tried at least, however short the agreement's horizon is."""


@dataclass(frozen=True, slots=True)
class Received:
    """What became of a message. `refusal` says why, if it was not taken. `routed`: it is to be
    forwarded, not delivered."""

    accepted: bool
    refusal: str = ""
    routed: bool = False


@dataclass(frozen=True, slots=True)
class _Pair:
    """The pair as it was read, with what it knows of this message."""

    partner_id: int
    link_id: int
    receiving: ReceivingLink
    known: Known
    known_id: int | None
    agreement_id: int | None
    route_id: int | None
    on_unexpected_first: OnUnexpectedFirst
    expires_at: datetime
    now: datetime


def accept_if_usual(partner: Partner, message: ReceivedMessage) -> bool:
    """The fast path: take the next message of a pair without a lock, in two statements.

    1. Read the link with its version, what it knows of this MessageId, the agreement, and whether
       `partner` is as it is remembered.
    2. Decide by the Receiver's table, as `receive_message` does. Go on only if all there is to it
       is to accept the message and to owe its Acknowledgement.
    3. Write all of that in one statement, if the link is still in that version.

    False, with nothing done, otherwise: then `receive_message` takes the lock.
    """
    (rows,) = run(_load(partner.pk, message, partner.credential_id))
    if not rows or rows[0].as_read != partner.as_read or not partner.in_use:
        return False
    pair = _pair_of(partner.pk, rows[0], message)
    if pair.agreement_id is None or pair.route_id is not None:
        return False
    after, effects = _decide(pair, message, _postponed(partner, pair))
    match effects:
        case (do.Accept() as accept, do.OweAck()):
            call = _accept_if_unchanged(pair, after, accept, message, rows[0].version)
        case _:
            return False
    reach(CrashPoint.RECEIVE_BEFORE_COMMIT)
    try:
        (done,) = run(call)
    except IntegrityError:  # the same MessageId as BestEffort, which leaves the link as it is
        return False
    reach(CrashPoint.RECEIVE_AFTER_COMMIT)
    return bool(done)


def receive_message(partner: Partner, message: ReceivedMessage) -> Received:
    """Store a Normal message, or not, by the Receiver's table; owe what it is owed; commit.

    Raises RefusedTooOften, with nothing done, for one refusal too many.
    """
    with transaction.atomic():
        pair = _read_pair(partner.pk, message)
        if pair.agreement_id is None and pair.known in (Known.NO, Known.OTHER):
            error = do.OweError(ErrorCode.SECURITY_FAILURE, *_no_agreement(message.header))
            effects: tuple[do.ReceiverEffect, ...] = (error,)
            after = pair.receiving
        else:
            after, effects = _decide(pair, message, _postponed(partner, pair))
        errors = [effect for effect in effects if isinstance(effect, do.OweError)]
        for error in errors:
            spend_refusal(partner.pk, pair.link_id, error.code, message.header.message_id)
        _write(pair, after, effects, message)
        mark_in_use(partner)
        reach(CrashPoint.RECEIVE_BEFORE_COMMIT)
    reach(CrashPoint.RECEIVE_AFTER_COMMIT)
    accepted = any(isinstance(effect, do.Accept) for effect in effects)
    routed = any(isinstance(effect, do.SendOn) for effect in effects)
    return Received(accepted, errors[0].description if errors else "", routed)


def owe_error(partner_id: int, error: do.OweError, about: Header | Any, number: int | None) -> None:
    """Owe an Error Message for a message that could not be read far enough to be decided on.
    Raises RefusedTooOften."""
    with transaction.atomic():
        link_id = _inbound_link(partner_id)
        spend_refusal(partner_id, link_id, error.code, about.message_id)
        now = read_clock()
        expires_at = now + timedelta(seconds=SIGNAL_HORIZON)
        event = _history(
            partner_id, now, about.message_id, error.code, error.description, counts=True
        )
        run(_owe_error(link_id, error, about, number, now, expires_at), event)


def note_unexpected(partner_id: int, message_id: str, event: str, detail: str) -> None:
    """Record a signal that means nothing to us (D55)."""
    run(_history(partner_id, None, message_id, event, detail, counts=True))


def _no_agreement(header: Header) -> tuple[Field, str]:
    text = (
        f"no agreement {header.tpa_id!r} between {header.from_party.party_id!r} and"
        f" {header.to_party.party_id!r} with this partner"
    )
    return Field.TPA_ID, text


def _inbound_link(partner_id: int) -> int:
    link, _ = InboundLink.objects.get_or_create(partner_id=partner_id)
    return link.pk


def _read_pair(partner_id: int, message: ReceivedMessage) -> _Pair:
    _, rows = run(message_sql.LOCK_LINK(partner_id=partner_id), _load(partner_id, message))
    if not rows:
        _inbound_link(partner_id)
        return _read_pair(partner_id, message)
    return _pair_of(partner_id, rows[0], message)


def _load(
    partner_id: int, message: ReceivedMessage, credential_id: int | None = None
) -> Call[InboundRow]:
    header = message.header
    return message_sql.LOAD(
        partner_id=partner_id,
        credential_id=credential_id,
        message_id=header.message_id,
        tpa_id=header.tpa_id,
        their_party=header.from_party.party_id,
        their_party_context=header.from_party.context,
        our_party=header.to_party.party_id,
        our_party_context=header.to_party.context,
    )


def _pair_of(partner_id: int, row: InboundRow, message: ReceivedMessage) -> _Pair:
    horizon = max(row.retry_horizon or 0, SIGNAL_HORIZON)
    return _Pair(
        partner_id=partner_id,
        link_id=row.id,
        receiving=ReceivingLink(row.last_number, row.epoch, row.reset_allowed),
        known=_known(row, message),
        known_id=row.known_id,
        agreement_id=row.agreement_id,
        route_id=row.route_id,
        on_unexpected_first=OnUnexpectedFirst(row.on_unexpected_first or "accept"),
        expires_at=row.now + timedelta(seconds=horizon),
        now=row.now,
    )


def _known(row: InboundRow, message: ReceivedMessage) -> Known:
    if row.known_id is None or row.known_digest is None:
        return Known.NO
    if bytes(row.known_digest) != message.content_digest:
        return Known.OTHER
    return Known.WITHHELD if row.known_state in UNACKNOWLEDGED else Known.SAME


def _postponed(partner: Partner, pair: _Pair) -> Postponed | None:
    """Why nothing new of this partner is to be stored now."""
    if pair.known is not Known.NO:
        return None
    if short := capacity.shortage():
        return short
    limits = partner.limits
    if not limits.any:
        return None
    return admission(limits, capacity.usage_of(pair.link_id, pair.receiving, limits), pair.now)


def _decide(
    pair: _Pair, message: ReceivedMessage, postponed: Postponed | None
) -> tuple[ReceivingLink, tuple[do.ReceiverEffect, ...]]:
    if pair.known is Known.WITHHELD and pair.known_id is not None:
        return routing.repeated(pair.receiving, failure_of_forwarded(pair.known_id))
    outcome = _decide_alone(pair, message.header, postponed)
    if pair.route_id is None or pair.agreement_id is None:
        return outcome
    next_hop = read_next_hop(pair.agreement_id, message, pair.now)
    return routing.sent_on(pair.receiving, outcome, next_hop, message.header.message_id)


def _decide_alone(
    pair: _Pair, header: Header, postponed: Postponed | None
) -> tuple[ReceivingLink, tuple[do.ReceiverEffect, ...]]:
    number = header.route.sequence_number
    if not header.reliable or number is None:
        return pair.receiving, receiver.best_effort(header.message_id, pair.known, postponed)
    event = MessageArrived(
        header.message_id, number, pair.known, pair.on_unexpected_first, postponed
    )
    return receiver.step(pair.receiving, event)


def _write(
    pair: _Pair,
    after: ReceivingLink,
    effects: tuple[do.ReceiverEffect, ...],
    message: ReceivedMessage,
) -> None:
    calls = [call for effect in effects for call in _calls(pair, effect, message)]
    if after != pair.receiving:
        calls.append(message_sql.WRITE_LAST_NUMBER.of(_last_number(pair, after, message)))
    run(*calls)


def _last_number(pair: _Pair, after: ReceivingLink, message: ReceivedMessage) -> LastNumber:
    return LastNumber(
        pair.link_id,
        after.last_number,
        after.epoch,
        receiver.ended_run(pair.receiving, after),
        after.reset_allowed,
        message.header.message_id,
    )


def _calls(  # noqa: PLR0911  one for each effect
    pair: _Pair, effect: do.ReceiverEffect, message: ReceivedMessage
) -> list[Call[Any]]:
    """What an effect of the Receiver's table writes."""
    header = message.header
    event = (pair.partner_id, pair.now, header.message_id)
    match effect:
        case do.Accept():
            return [
                message_sql.INSERT(**_message(pair, effect, message)),
                _history(*event, "MessageArrived", _number(effect), to_state="accepted"),
            ]
        case do.SendOn():
            return [mark_for_forwarding(pair.link_id, header.message_id, effect.withheld)]
        case do.OweAck():
            return [_owe_ack(pair, header)]
        case do.OweError():
            number = header.route.sequence_number
            return [
                _owe_error(pair.link_id, effect, header, number, pair.now, pair.expires_at),
                _history(*event, effect.code, effect.description, counts=True),
            ]
        case do.CountDuplicate():
            return [
                message_sql.COUNT_DUPLICATE(key=pair.known_id),
                _history(*event, "DuplicateArrived", "discarded", counts=True),
            ]
        case do.OpenIncident():
            what = (effect.kind, effect.message_id, effect.detail)
            new = incidents.NewIncident(pair.partner_id, "in", *what, pair.now)
            return [incidents.open_incident(new)]
        case do.Note():
            return [_history(*event, "Note", effect.detail, subject=LINK, counts=True)]


def _accept_if_unchanged(
    pair: _Pair, after: ReceivingLink, accept: do.Accept, message: ReceivedMessage, version: str
) -> Call[Any]:
    last = _last_number(pair, after, message)
    return message_sql.ACCEPT_IF_UNCHANGED(
        **_message(pair, accept, message),
        version=version,
        partner_id=pair.partner_id,
        last_number=last.last_number,
        ended_run=last.ended_run,
        reset_allowed=last.reset_allowed,
        tpa_id=message.header.tpa_id,
        expires_at=pair.expires_at,
        detail=_number(accept),
    )


def _message(pair: _Pair, effect: do.Accept, message: ReceivedMessage) -> dict[str, Any]:
    """The columns of an accepted message and its payloads."""
    header, payloads = message.header, message.payloads
    return {
        "link_id": pair.link_id,
        "agreement_id": pair.agreement_id,
        "message_id": header.message_id,
        "semantics": header.semantics,
        "epoch": effect.epoch,
        "sequence_number": effect.sequence_number,
        "conversation_id": header.conversation_id,
        "service_interface": header.service_interface,
        "action": header.action,
        "ref_to_message_id": header.ref_to_message_id,
        "sent_at": header.timestamp,
        "received_at": pair.now,
        "content_digest": message.content_digest,
        "header": message.header_document,
        "positions": list(range(1, len(payloads) + 1)),
        "content_types": [payload.content_type for payload in payloads],
        "content_ids": [payload.content_id for payload in payloads],
        "labels": [payload.label for payload in payloads],
        "descriptions": [payload.description for payload in payloads],
        "contents": [payload.content for payload in payloads],
    }


def _number(effect: do.Accept) -> str:
    return "" if effect.sequence_number is None else f"number {effect.sequence_number}"


def _owe_ack(pair: _Pair, header: Header) -> Call[None]:
    return signals.owe_signal(
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


def _owe_error(
    link_id: int,
    error: do.OweError,
    about: Any,
    number: int | None,
    now: datetime,
    expires_at: datetime,
) -> Call[None]:
    return signals.owe_signal(
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


def _history(
    partner_id: int,
    now: datetime | None,
    message_id: str,
    event: str,
    detail: str = "",
    *,
    to_state: str = "",
    subject: str = MESSAGE,
    counts: bool = False,
) -> Call[None]:
    row = HistoryRow(
        partner_id,
        "in",
        event,
        message_id,
        to_state=to_state,
        detail=detail,
        subject=subject,
        at=now,
    )
    return history.insert_or_count(row) if counts else history.insert(row)
