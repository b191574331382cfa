"""Receiving in ebMS 2.0: a message is decided under the lock of the pair, and written together with
its answer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

from django.db import transaction

from msh.faults import CrashPoint, reach
from msh.models import InboundState
from msh.protocol import effects as do
from msh.protocol.admission import Postponed
from msh.protocol.ebms.agreement import Agreed, answers_on_connection, is_between, under
from msh.protocol.ebms.arrival import Ruling, decide, event_of, order_of
from msh.protocol.ebms.channel import Channel
from msh.protocol.ebms.message import (
    Error,
    MessageHeader,
    PartialHeader,
    PartyId,
    ReceivedMessage,
    digest_to_keep,
)
from msh.protocol.ebms.vocabulary import SERVICE
from msh.protocol.flight.arrival import MessageArrived
from msh.protocol.flight.conversation import Conversation, Position, position
from msh.protocol.kinds import IncidentKind
from msh.protocol.receiver import Known
from msh.protocol.vocabulary import DeliverySemantics
from msh.signing_keys import why_no_key
from msh.store import capacity, incidents
from msh.store.engine import Call, run
from msh.store.sending.submissions import mark_in_use
from partners.models import Agreement, Partner
from partners.models.channel import Direction

from . import conversation_sql, ebms2_sql
from .accept import COUNT_DUPLICATE, store_calls
from .conversations import HeldConversation, held
from .ebms2_answers import Attribution, Pair, ack_call, error_calls, event_call, repeat_call
from .ebms2_sql import AgreementRow, KeptAnswer
from .pairs import LOCK_LINK, inbound_link
from .refusals import spend_refusal

_OF_MESSAGE = (IncidentKind.MESSAGE_ID_REUSED, IncidentKind.SIGNATURE_REFUSED)
"""The others are those of its conversation, which opens them."""


@dataclass(frozen=True, slots=True)
class Received:
    """The result for a message. `refusal`: why it was not taken. `wait`: it was not taken now,
    nothing is stored, and it may be sent again after so many seconds. `answer` is sent on its
    connection; None: the answer, if any, is pending and sent later."""

    accepted: bool
    refusal: str = ""
    wait: int | None = None
    answer: KeptAnswer | None = None


def attribute(
    partners: Sequence[Partner], header: MessageHeader | PartialHeader, *, authenticated: bool
) -> Attribution | None:
    """The agreement of a request that one of `partners` has sent (EB-064, EB-191).

    For an authenticated partner only the CPAId has to fit, so that a wrong party can be answered by
    an Error. Otherwise From and To must be those of the agreement too.
    """
    keys = [one.pk for one in partners]
    (rows,) = run(ebms2_sql.FIND_AGREEMENTS(partners=keys, cpa_id=header.cpa_id))
    for row in rows:
        agreed = agreed_of(row)
        # Several agreements may have this CPAId, one for each pair of parties (EB-191).
        if authenticated or is_between(agreed, header.from_party, header.to_party):
            partner = next(one for one in partners if one.pk == row.partner_id)
            if isinstance(header, MessageHeader):
                agreed = under(agreed, header)
            return Attribution(partner, row.id, agreed, row.horizon, row.unreached)
    return None


def attribution_under(agreement: Agreement) -> Attribution:
    """The attribution of what we ask under this agreement, and of its answers."""
    partner = agreement.partner
    (rows,) = run(ebms2_sql.FIND_AGREEMENTS(partners=[partner.pk], cpa_id=agreement.tpa_id))
    row = next(one for one in rows if one.id == agreement.pk)
    return Attribution(partner, row.id, agreed_of(row), row.horizon)


def agreed_of(row: AgreementRow) -> Agreed:
    rows = row.channels or ()
    channels = tuple(_channel(row, one) for one in rows if one["direction"] == Direction.IN)
    signals = tuple(_channel(row, one) for one in rows if one["service"] == SERVICE)
    signing = [one.get(name, False) for one in rows for name in _SIGNING]
    return Agreed(
        cpa_id=row.tpa_id,
        our_party=PartyId(row.our_party, row.our_party_context),
        their_party=PartyId(row.their_party, row.their_party_context),
        our_role=row.our_role,
        their_role=row.their_role,
        ack=row.ack,
        eliminates=row.eliminates,
        lenient=frozenset(row.lenient),
        sync_reply=row.sync_reply,
        refuses_status=row.refuses_status,
        ordered=row.ordered,
        horizon=row.horizon,
        checks_ref_to=row.check_ref_to,
        service_type=row.service_type,
        clock_tolerance=row.clock_tolerance,
        signed=row.signed,
        ack_signed=row.ack_signed,
        signature_method=row.signature_method,
        can_sign=any((row.signed, row.ack_signed, *signing))
        and not why_no_key(row.signature_method),
        certificates=(row.certificate,) if row.certificate else (),
        allow_sha1=row.allow_sha1,
        keep_expired=row.keep_expired,
        encrypted=row.encrypted,
        allow_rsa_1_5=row.allow_rsa_1_5,
        channels=channels,
        signals=signals,
        ack_differs=any(
            "ack_signed" in one or (one["service"] == SERVICE and "signed" in one) for one in rows
        ),
    )


_TERMS = {field.name for field in fields(Agreed)}
_SIGNING = ("signed", "ack_signed")


def _channel(row: AgreementRow, columns: Mapping[str, Any]) -> Channel:
    terms = {name: value for name, value in columns.items() if name in _TERMS}
    of_type = columns.get("service_type", row.service_type)
    return Channel(columns["service"], columns["action"], terms, of_type)


def receive_message(found: Attribution, received: ReceivedMessage) -> Received:
    """Store a message of a business, or not; queue its answer, or give it; commit.

    Raises RefusedTooOften, with nothing done, for one refusal too many.
    """
    message, header, partner = received.message, received.message.header, found.partner
    in_order = order_of(received, found.agreed) is not None
    with transaction.atomic():
        pair = _lock(
            found,
            header.message_id,
            header.conversation_id if in_order else None,
            on_connection=answers_on_connection(found.agreed, message),
        )
        ruling, taking = _decide(pair, received)
        if ruling.errors and ruling.postponed is None:
            spend_refusal(partner.pk, pair.link_id, ruling.errors[0].code, header.message_id)
        results = run(*taking, *_calls(pair, ruling, received))
        mark_in_use(partner)
        reach(CrashPoint.RECEIVE_BEFORE_COMMIT)
    reach(CrashPoint.RECEIVE_AFTER_COMMIT)
    postponed = ruling.postponed
    return Received(
        any(isinstance(effect, do.Accept) for effect in ruling.effects),
        _refusal(pair, ruling),
        postponed.min_retry_secs if postponed else None,
        next((row for rows in results for row in rows if isinstance(row, KeptAnswer)), None),
    )


def _refusal(pair: Pair, ruling: Ruling) -> str:
    """The reason that the answer names: for a copy of a refused message that of the first
    refusal."""
    if ruling.errors:
        return ruling.errors[0].description
    repeats = any(isinstance(effect, do.RepeatAnswer) for effect in ruling.effects)
    refused = repeats and pair.row.known_id is None
    return (pair.row.refused_description or "") if refused else ""


def refuse(found: Attribution, partial: PartialHeader, errors: tuple[Error, ...]) -> None:
    """Queue a MessageError for a message whose header cannot be used. Raises RefusedTooOften."""
    with transaction.atomic():
        pair = _lock(found, partial.message_id)
        spend_refusal(found.partner.pk, pair.link_id, errors[0].code, partial.message_id)
        about = (partial.message_id, partial.conversation_id or partial.message_id)
        run(*error_calls(pair, *about, errors, errors[0].code))


def _decide(pair: Pair, received: ReceivedMessage) -> tuple[Ruling, list[Call[object]]]:
    """The ruling, and what stores the message and changes its conversation."""
    conversation, event, now = pair.conversation, event_at(pair, received), pair.row.now
    before = conversation.value if conversation else Conversation()
    after, ruling = decide(received, pair.found.agreed, event, before, now=now)
    is_held = any(isinstance(effect, do.Hold) for effect in ruling.effects)
    if not (is_held or any(isinstance(effect, do.Accept) for effect in ruling.effects)):
        return ruling, []
    partner_id, columns = pair.found.partner.pk, columns_of(pair, received)
    if conversation is None:
        return ruling, store_calls(partner_id, now, columns, received.payloads)
    conversation, order = conversation.insert_if_new(), received.message.order
    columns |= {
        "state": InboundState.HELD.value if is_held else InboundState.ACCEPTED.value,
        "ordered_in_id": conversation.key,
        "order_number": order.sequence_number if order else None,
    }
    # The message is stored before those that it releases.
    return ruling, [
        *store_calls(partner_id, now, columns, received.payloads),
        *conversation.calls(after, ruling.effects),
    ]


def _lock(
    found: Attribution,
    message_id: str,
    conversation_id: str | None = None,
    *,
    on_connection: bool = False,
) -> Pair:
    """Lock the link, and read what it knows of the message and, if it is named, its
    conversation."""
    partner = found.partner
    known = ebms2_sql.LOAD_KNOWN(
        partner_id=partner.pk, message_id=message_id, rate=partner.rate_limit
    )
    load: list[Call[Any]] = [LOCK_LINK(partner_id=partner.pk), known]
    if conversation_id is not None:
        load.append(
            conversation_sql.LOAD(agreement_id=found.agreement_id, conversation_id=conversation_id)
        )
    while True:
        read: Sequence[list[Any]] = run(*load)
        links, rows, *conversations = read
        if links and rows:
            break
        # The first message of this partner: create the link, then lock it.
        inbound_link(partner.pk)
    pair = Pair(found, links[0].id, rows[0], on_connection)
    if conversation_id is None:
        return pair
    about = (pair.link_id, partner.pk, found.agreement_id, conversation_id)
    new = HeldConversation(*about, found.horizon, pair.row.now)
    conversation = next(map(held, conversations[0]), new)
    # One time for all that is written.
    return replace(pair, conversation=replace(conversation, now=pair.row.now))


def event_at(pair: Pair, received: ReceivedMessage) -> MessageArrived:
    known = pair.known(received)
    return event_of(
        received,
        known=known,
        answered_by_error=pair.row.known_id is None,
        undelivered=pair.conversation is not None and pair.conversation.undelivered,
        postponed=_postponed(pair, received) if known is Known.NO else None,
        now=pair.row.now - timedelta(seconds=pair.found.agreed.clock_tolerance),
        refers_to_unknown=known is Known.NO and _refers_to_unknown(pair, received),
    )


def _refers_to_unknown(pair: Pair, received: ReceivedMessage) -> bool:
    """EB-039. Nothing is asked where the agreement does not want to know."""
    found, ref = pair.found, received.message.header.ref_to_message_id
    if not (found.agreed.checks_ref_to and ref):
        return False
    about = {"partner_id": found.partner.pk, "link_id": pair.link_id, "message_id": ref}
    (rows,) = run(ebms2_sql.FIND_MESSAGE(**about))
    return not rows


def _postponed(pair: Pair, received: ReceivedMessage) -> Postponed | None:
    # What is held counts when more would be: else no room were left for the number that lacks.
    order, conversation = order_of(received, pair.found.agreed), pair.conversation
    would_be_held = (
        order is not None
        and conversation is not None
        and position(conversation.value, order) is Position.AHEAD
    )
    about = (pair.found.partner.limits, pair.link_id, received.payloads)
    return capacity.postponed(*about, pair.row.rate_reached_at, pair.row.now, held=would_be_held)


def _calls(pair: Pair, ruling: Ruling, received: ReceivedMessage) -> Iterator[Call[object]]:
    header = received.message.header
    for effect in ruling.effects:
        match effect:
            case do.QueueAck():
                yield ack_call(pair, received)
            case do.RepeatAnswer():
                yield repeat_call(pair, received)
            case do.CountDuplicate():
                if pair.row.known_id is not None:
                    yield COUNT_DUPLICATE(key=pair.row.known_id)
                yield event_call(pair, header.message_id, "DuplicateArrived", "discarded")
            case do.OpenIncident(kind) if kind in _OF_MESSAGE:
                what = (effect.kind, effect.message_id, effect.detail, pair.row.now)
                new = incidents.NewIncident(pair.found.partner.pk, "in", *what)
                yield incidents.open_incident(new)
    if ruling.errors and ruling.postponed is None:
        kept = any(isinstance(effect, do.KeepRefusal) for effect in ruling.effects)
        digest = digest_to_keep(received, pair.found.agreed.lenient) if kept else None
        about = (header.message_id, header.conversation_id)
        yield from error_calls(pair, *about, ruling.errors, ruling.code, digest)
    for note in ruling.notes:
        yield event_call(pair, header.message_id, "Note", note)


def columns_of(pair: Pair, received: ReceivedMessage) -> dict[str, object]:
    message, header = received.message, received.message.header
    reliable = bool(message.ack_requested)
    semantics = DeliverySemantics.ONCE_AND_ONLY_ONCE if reliable else DeliverySemantics.BEST_EFFORT
    return {
        "link_id": pair.link_id,
        "agreement_id": pair.found.agreement_id,
        "message_id": header.message_id,
        "semantics": semantics,
        "conversation_id": header.conversation_id,
        "service_interface": header.service.value,
        "action": header.action,
        "ref_to_message_id": header.ref_to_message_id,
        "sent_at": header.timestamp,
        "content_digest": received.content_digest,
        "header": received.envelope,
        "from_role": header.from_party.role,
        "to_role": header.to_party.role,
        "service_type": header.service.type,
    }
