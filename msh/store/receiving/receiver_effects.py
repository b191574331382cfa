"""The statements that each effect of the Receiver's table writes."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msh.models import InboundState, SignalKind
from msh.protocol import effects as do
from msh.protocol import receiver
from msh.protocol.message import Header, PartialHeader, Payload
from msh.protocol.received import ReceivedMessage
from msh.protocol.receiver import ReceivingLink
from msh.store import history, incidents
from msh.store.engine import Call
from msh.store.history import LINK, MESSAGE, HistoryRow
from msh.store.sending import signals
from msh.wire import locate

from . import message_sql
from .forwarding import mark_for_forwarding
from .message_sql import LastNumber
from .pairs import Pair


def calls_of(  # noqa: PLR0911  one for each effect
    pair: Pair, effect: do.ReceiverEffect, message: ReceivedMessage
) -> list[Call[object]]:
    header = message.header
    event = (pair.partner_id, pair.now, header.message_id)
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
                error_call(pair.link_id, effect, header, number, pair.now, pair.expires_at),
                history_call(*event, effect.code, effect.description, counts=True),
            ]
        case do.CountDuplicate():
            return [
                message_sql.COUNT_DUPLICATE(key=pair.known_id),
                history_call(*event, "DuplicateArrived", "discarded", counts=True),
            ]
        case do.OpenIncident():
            what = (effect.kind, effect.message_id, effect.detail)
            new = incidents.NewIncident(pair.partner_id, "in", *what, pair.now)
            return [incidents.open_incident(new)]
        case do.Note():
            return [history_call(*event, "Note", effect.detail, subject=LINK, counts=True)]


def last_number(
    link_id: int, before: ReceivingLink, after: ReceivingLink, message_id: str
) -> LastNumber:
    return LastNumber(
        link_id,
        after.last_number,
        after.epoch,
        receiver.ended_run(before, after),
        after.reset_allowed,
        message_id,
    )


_NO_VALUES: Mapping[str, object] = {
    "state": InboundState.ACCEPTED.value,
    "epoch": None,
    "sequence_number": None,
    "ordered_in_id": None,
    "order_number": None,
    "from_role": "",
    "to_role": "",
    "service_type": "",
}
"""Empty values for columns that only some messages have."""


def store_calls(
    partner_id: int, now: datetime, columns: Mapping[str, object], payloads: Sequence[Payload]
) -> list[Call[object]]:
    """A message is stored with its payloads, and its history begins."""
    row = {**_NO_VALUES, **columns, "received_at": now}
    number = row["sequence_number"] if row["order_number"] is None else row["order_number"]
    detail = "" if number is None else f"number {number}"
    message_id, state = str(row["message_id"]), str(row["state"])
    arrived = (partner_id, now, message_id, "MessageArrived", detail)
    return [
        message_sql.INSERT(**row, **message_sql.payload_columns(payloads)),
        history_call(*arrived, to_state=state),
    ]


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


def error_call(
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


def history_call(
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
