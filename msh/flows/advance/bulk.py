"""Many new messages at once: COPY into every table, under its constraints, all or nothing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from msh.models import OutboundMessage, hot
from msh.protocol.message import Payload

from .lanes import SYSTEM

_KEYS = """
    SELECT nextval(pg_get_serial_sequence('msh_outboundmessage', 'id')) AS id
    FROM generate_series(1, %s)
"""
_MESSAGES = """
    COPY msh_outboundmessage (id, link_id, agreement_id, message_id, semantics, state,
        conversation_id, service_interface, action, ref_to_message_id, submitted_at,
        content_digest, size, boundary) FROM STDIN (FORMAT BINARY)
"""
_MESSAGE_TYPES = (
    *("int8", "int8", "int8", "varchar", "varchar", "varchar"),
    *("text", "text", "text", "text", "timestamptz", "bytea", "int4", "varchar"),
)
_PAYLOADS = """
    COPY msh_outboundpayload (message_id, position, content_type, content_id, label, description,
        wire) FROM STDIN (FORMAT BINARY)
"""
_PAYLOAD_TYPES = ("int8", "int2", "varchar", "varchar", "text", "text", "bytea")
_HISTORY = """
    COPY msh_history (at, actor, partner_id, direction, subject, message_id, event, from_state,
        to_state, detail) FROM STDIN (FORMAT BINARY)
"""
_HISTORY_TYPES = (
    *("timestamptz", "varchar", "int8", "varchar", "varchar"),
    *("varchar", "varchar", "varchar", "varchar", "text"),
)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message, its payloads, and these in wire form."""

    message: OutboundMessage
    payloads: Sequence[Payload]
    parts: Sequence[bytes]


def submitted_many(new: Sequence[NewMessage], links: Mapping[int, int]) -> None:
    """Write them in this order, in the caller's transaction. `links`: partner id to link id.

    Raises IntegrityError if a MessageId became known meanwhile: then nothing is written.
    """
    if not new:
        return
    (keys,) = hot.run((_KEYS, (len(new),)))
    for one, (key,) in zip(new, keys, strict=True):
        one.message.pk = key
        one.message.link_id = links[one.message.agreement.partner_id]
        one.message.size = sum(map(len, one.parts))
    _copy(_MESSAGES, _MESSAGE_TYPES, (_message_row(one.message) for one in new))
    _copy(_PAYLOADS, _PAYLOAD_TYPES, (row for one in new for row in _payload_rows(one)))
    _copy(_HISTORY, _HISTORY_TYPES, (_history_row(one.message) for one in new))


def _copy(statement: str, types: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with connection.cursor() as cursor, connection.wrap_database_errors:
        with cursor.copy(statement) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)


def _message_row(message: OutboundMessage) -> tuple[Any, ...]:
    return (
        *(message.pk, message.link_id, message.agreement_id, message.message_id),
        *(message.semantics, "queued", message.conversation_id, message.service_interface),
        *(message.action, message.ref_to_message_id, message.submitted_at),
        *(message.content_digest, message.size, message.boundary),
    )


def _payload_rows(one: NewMessage) -> Iterable[tuple[Any, ...]]:
    for position, (payload, part) in enumerate(zip(one.payloads, one.parts, strict=True), start=1):
        what = (payload.content_type, payload.content_id, payload.label, payload.description)
        yield (one.message.pk, position, *what, part)


def _history_row(message: OutboundMessage) -> tuple[Any, ...]:
    who = (message.submitted_at, SYSTEM, message.agreement.partner_id, "out", "message")
    return (*who, message.message_id, "MessageSubmitted", "", "queued", "")
