"""What we receive: accepted messages, last numbers, signals owed. Decided and written at once."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from msh.faults import CrashPoint, reach
from msh.flows import store
from msh.models import InboundLink, SignalKind, hot
from msh.models.inbound import UNACKNOWLEDGED
from msh.models.usage import usage_of
from msh.protocol import effects as do
from msh.protocol import receiver, routing
from msh.protocol.admission import Postponed, admission
from msh.protocol.message import Field, Header, ReceivedMessage
from msh.protocol.receiver import Known, MessageArrived, OnUnexpectedFirst, ReceivingLink
from msh.protocol.vocabulary import ErrorCode
from msh.wire import locate
from partners.models import Partner

from .forward import onward_of, send_on
from .refusals import spend_refusal
from .relay import failure_onward
from .use import mark_in_use

SIGNAL_HORIZON = 60
"""Seconds for which a signal is tried at least, however short the agreement's horizon is."""


@dataclass(frozen=True, slots=True)
class Received:
    """What became of a message. `refusal` says why, if it was not taken. `routed`: it is to be
    sent on, not delivered."""

    accepted: bool
    refusal: str = ""
    routed: bool = False


@dataclass(frozen=True, slots=True)
class _Pair:
    """The pair as read under its lock, with what it knows of this message."""

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


def accept_at_once(partner: Partner, message: ReceivedMessage) -> bool:
    """Take a Normal message without a lock, in one statement, if that is all there is to it.

    False, with nothing done, if it is not: the pair or the partner has changed meanwhile, it is
    a copy, an error is owed.
    """
    (rows,) = hot.run(_load(partner.pk, message, partner.credential_id))
    if not rows or rows[0].as_read != partner.as_read or not partner.in_use:
        return False
    pair = _pair_of(partner.pk, rows[0], message)
    if pair.agreement_id is None or pair.route_id is not None:
        return False
    after, effects = _decide(pair, message, _postponed(partner, pair))
    if [type(effect) for effect in effects] != [do.Accept, do.OweAck]:
        return False
    (_, row), (_, history), (_, signal) = (
        statement for effect in effects for statement in _statements(pair, effect, message)
    )
    guard = (*_last_number(pair, after, message), rows[0].version)
    reach(CrashPoint.RECEIVE_BEFORE_COMMIT)
    try:
        (done,) = hot.run((hot.ACCEPT_IF_UNCHANGED, (*guard, *row, *history, *signal)))
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
        for owed in errors:
            spend_refusal(partner.pk, pair.link_id, owed.code, message.header.message_id)
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
        (rows,) = hot.run((hot.CLOCK, ()))
        now = rows[0].now
        expires_at = now + timedelta(seconds=SIGNAL_HORIZON)
        told = (about.message_id, error.code, error.description)
        history = _history(partner_id, now, *told, counts=True)
        hot.run(_owed_error(link_id, error, about, number, now, expires_at), history)


def note_unexpected(partner_id: int, message_id: str, event: str, detail: str) -> None:
    """Record a signal that means nothing to us (D55)."""
    (rows,) = hot.run((hot.CLOCK, ()))
    hot.run(_history(partner_id, rows[0].now, message_id, event, detail, counts=True))


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
    lock = (hot.LOCK_INBOUND_LINK, (partner_id,))
    _, rows = hot.run(lock, _load(partner_id, message))
    if not rows:
        _inbound_link(partner_id)
        return _read_pair(partner_id, message)
    return _pair_of(partner_id, rows[0], message)


def _load(
    partner_id: int, message: ReceivedMessage, credential_id: int | None = None
) -> hot.Statement:
    header = message.header
    sender, ours = header.from_party, header.to_party
    parties = (sender.party_id, sender.context, ours.party_id, ours.context)
    names = (credential_id, header.message_id, header.tpa_id, *parties, partner_id)
    return hot.LOAD_INBOUND, names


def _pair_of(partner_id: int, row: Any, message: ReceivedMessage) -> _Pair:
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


def _known(row: Any, message: ReceivedMessage) -> Known:
    if row.known_id is None:
        return Known.NO
    if bytes(row.known_digest) != message.content_digest:
        return Known.OTHER
    return Known.WITHHELD if row.known_state in UNACKNOWLEDGED else Known.SAME


def _postponed(partner: Partner, pair: _Pair) -> Postponed | None:
    """Why nothing new of this partner is to be stored now."""
    if pair.known is not Known.NO:
        return None
    if short := store.shortage():
        return short
    limits = partner.limits
    if not limits.any:
        return None
    return admission(limits, usage_of(pair.link_id, pair.receiving, limits), pair.now)


def _decide(
    pair: _Pair, message: ReceivedMessage, postponed: Postponed | None
) -> tuple[ReceivingLink, tuple[do.ReceiverEffect, ...]]:
    if pair.known is Known.WITHHELD and pair.known_id is not None:
        return routing.repeated(pair.receiving, failure_onward(pair.known_id))
    outcome = _decide_alone(pair, message.header, postponed)
    if pair.route_id is None or pair.agreement_id is None:
        return outcome
    onward = onward_of(pair.agreement_id, message, pair.now)
    return routing.sent_on(pair.receiving, outcome, onward, message.header.message_id)


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
    statements: list[hot.Statement] = []
    for effect in effects:
        statements.extend(_statements(pair, effect, message))
    if after != pair.receiving:
        statements.append((hot.WRITE_LAST_NUMBER, _last_number(pair, after, message)))
    hot.run(*statements)


def _last_number(pair: _Pair, after: ReceivingLink, message: ReceivedMessage) -> tuple[Any, ...]:
    ended = receiver.ended_run(pair.receiving, after)
    last = (after.last_number, after.epoch, ended, after.reset_allowed)
    return (*last, message.header.message_id, pair.link_id)


def _statements(  # noqa: PLR0911  one for each effect
    pair: _Pair, effect: do.ReceiverEffect, message: ReceivedMessage
) -> list[hot.Statement]:
    header = message.header
    note = (pair.partner_id, pair.now, header.message_id)
    match effect:
        case do.Accept():
            given = "" if effect.sequence_number is None else f"number {effect.sequence_number}"
            return [
                _accepted(pair, effect, message),
                _history(*note, "MessageArrived", given, to_state="accepted"),
            ]
        case do.SendOn():
            return [send_on(pair.link_id, header.message_id, withheld=effect.withheld)]
        case do.OweAck():
            return [_owed_ack(pair, header)]
        case do.OweError():
            number = header.route.sequence_number
            return [
                _owed_error(pair.link_id, effect, header, number, pair.now, pair.expires_at),
                _history(*note, effect.code, effect.description, counts=True),
            ]
        case do.CountDuplicate():
            return [
                (hot.COUNT_DUPLICATE, (pair.known_id,)),
                _history(*note, "DuplicateArrived", "discarded", counts=True),
            ]
        case do.OpenIncident():
            what = (pair.partner_id, "in", effect.kind, effect.message_id, effect.detail)
            return [(hot.OPEN_INCIDENT, (*what, pair.now, pair.now))]
        case do.Note():
            return [_history(*note, "Note", effect.detail, subject="link", counts=True)]


def _accepted(pair: _Pair, effect: do.Accept, message: ReceivedMessage) -> hot.Statement:
    header = message.header
    row = (
        *(pair.link_id, pair.agreement_id, header.message_id, header.semantics),
        *(effect.epoch, effect.sequence_number, header.conversation_id),
        *(header.service_interface, header.action, header.ref_to_message_id),
        *(header.timestamp, pair.now, message.content_digest, message.header_document),
    )
    payloads = message.payloads
    parts = (
        list(range(1, len(payloads) + 1)),
        [payload.content_type for payload in payloads],
        [payload.content_id for payload in payloads],
        [payload.label for payload in payloads],
        [payload.description for payload in payloads],
        [payload.content for payload in payloads],
    )
    return hot.ACCEPT_MESSAGE, (*row, *parts)


def _owed_ack(pair: _Pair, header: Header) -> hot.Statement:
    row = (
        *(pair.link_id, SignalKind.ACKNOWLEDGEMENT.value, header.message_id, header.tpa_id),
        *(header.conversation_id, "", "", "", None, header.route.sequence_number),
        *(pair.now, pair.now, pair.expires_at),
    )
    return hot.OWE_SIGNAL, row


def _owed_error(
    link_id: int,
    error: do.OweError,
    about: Any,
    number: int | None,
    now: datetime,
    expires_at: datetime,
) -> hot.Statement:
    row = (
        *(link_id, SignalKind.ERROR.value, about.message_id, about.tpa_id, about.conversation_id),
        *(error.code, locate(error.field), error.description, error.min_retry_secs, number),
        *(now, now, expires_at),
    )
    return hot.OWE_SIGNAL, row


def _history(
    partner_id: int,
    now: datetime,
    message_id: str,
    event: str,
    detail: str = "",
    *,
    to_state: str = "",
    subject: str = "message",
    counts: bool = False,
) -> hot.Statement:
    """With `counts` a repetition within a minute is no row of its own."""
    row = (now, "msh", partner_id, "in", subject, message_id, event, "", to_state, detail)
    return hot.COUNT_HISTORY if counts else hot.WRITE_HISTORY, row
