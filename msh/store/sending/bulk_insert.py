"""New messages by COPY: the rows that `submissions.insert_message` writes, by the thousand."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import psycopg
from django.db import IntegrityError, connection

from msh.store import history
from msh.store.engine import Statement, run
from msh.store.history import HistoryRow

from .submission_sql import Parents
from .submissions import NewMessage


@dataclass(frozen=True, slots=True)
class _Known:
    link_id: int
    message_id: str
    content_digest: bytes


# By one snapshot: prune moves an id from one table to the other in one transaction.
_KNOWN = """
    SELECT known.link_id, known.message_id, known.content_digest
    FROM unnest(%(links)s::bigint[], %(message_ids)s::text[]) AS asked (link_id, message_id)
    JOIN msh_outboundmessage known USING (link_id, message_id)
    UNION ALL
    SELECT removed.link_id, removed.message_id, removed.content_digest
    FROM unnest(%(links)s::bigint[], %(message_ids)s::text[]) AS asked (link_id, message_id)
    JOIN msh_submittedid removed USING (link_id, message_id)
"""
_FIND_KNOWN = Statement(_KNOWN, _Known, binary=True)


@dataclass(frozen=True, slots=True)
class _Keys:
    keys: Sequence[int]
    now: int
    is_known: bool
    """Whether a MessageId is known. COPY finds that too, but not if prune is just removing the
    message: it waits for that, and then there is none."""


_NEW_KEYS = Statement(
    f"""
    SELECT array_agg(nextval('msh_outboundmessage_id_seq')) AS keys,
           (EXTRACT(EPOCH FROM statement_timestamp() - timestamptz '2000-01-01 00:00:00Z')
            * 1000000)::int8 AS now,
           EXISTS ({_KNOWN}) AS is_known
    FROM generate_series(1, %(count)s)
    """,
    _Keys,
    binary=True,
)
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "msh_outboundmessage": {
        "id": "int8",
        "link_id": "int8",
        "agreement_id": "int8",
        "message_id": "text",
        "semantics": "text",
        "state": "text",
        "conversation_id": "text",
        "service_interface": "text",
        "action": "text",
        "ref_to_message_id": "text",
        "submitted_at": "int8",
        "content_digest": "bytea",
        "size": "int4",
        "boundary": "text",
        "from_role": "text",
        "to_role": "text",
        "service_type": "text",
    },
    "msh_flight": {
        "message_id": "int8",
        "link_id": "int8",
        "due": "int8",
        "waits_turn": "bool",
    },
    "msh_outboundpayload": {
        "message_id": "int8",
        "position": "int2",
        "content_type": "text",
        "content_id": "text",
        "label": "text",
        "description": "text",
        "wire": "bytea",
        "size": "int4",
        "sha256": "bytea",
    },
    "msh_history": {**history.COLUMNS, "at": "int8"},
}
"""Types as they are written. A time is an int8 in COPY's binary format: microseconds since 2000."""


def insert_messages(new: Sequence[NewMessage], parents: Mapping[int, Parents]) -> None:
    """Write them in this order, in the caller's transaction. `parents`: by agreement id, locked.

    Raises IntegrityError if a MessageId is known: then the transaction is at its end.
    """
    links = [parents[one.heading.agreement_id].link_id for one in new]
    message_ids = [one.message_id for one in new]
    ((row,),) = run(_NEW_KEYS(count=len(new), links=links, message_ids=message_ids))
    if row.is_known:
        raise IntegrityError("A MessageId is known.")
    with connection.wrap_database_errors:
        _write(connection.connection, row, new, parents)


def _write(
    session: psycopg.Connection[Any],
    made: _Keys,
    new: Sequence[NewMessage],
    parents: Mapping[int, Parents],
) -> None:
    messages = map(_message, made.keys, new, repeat(parents), repeat(made.now))
    _copy(session, "msh_outboundmessage", messages)
    if any(one.heading.flies for one in new):
        _copy(session, "msh_flight", _flights(made.keys, new, parents, made.now))
    _copy(session, "msh_outboundpayload", _payloads(made.keys, new))
    _copy(session, "msh_history", _history(new, made.now))


def find_known(asked: Sequence[tuple[int, str]]) -> dict[tuple[int, str], bytes]:
    links, message_ids = [link for link, _ in asked], [message_id for _, message_id in asked]
    (rows,) = run(_FIND_KNOWN(links=links, message_ids=message_ids))
    return {(row.link_id, row.message_id): row.content_digest for row in rows}


def _copy(session: psycopg.Connection[Any], table: str, rows: Iterable[Sequence[object]]) -> None:
    columns = _COLUMNS[table]
    statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    with session.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        copy.set_types(list(columns.values()))
        for row in rows:
            copy.write_row(row)


def _message(
    key: int, new: NewMessage, parents: Mapping[int, Parents], now: int
) -> Sequence[object]:
    heading = new.heading
    return (
        key,
        parents[heading.agreement_id].link_id,
        heading.agreement_id,
        new.message_id,
        heading.semantics,
        "flying" if heading.flies else "queued",
        new.conversation_id,
        heading.service_interface,
        heading.action,
        new.ref_to_message_id,
        now,
        new.content_digest,
        sum([len(payload.content) for payload in new.payloads]),
        new.boundary,
        heading.from_role,
        heading.to_role,
        heading.service_type,
    )


def _flights(
    keys: Sequence[int], new: Sequence[NewMessage], parents: Mapping[int, Parents], now: int
) -> Iterator[Sequence[object]]:
    """Return the rows of flights, ready at once; those sent in order wait for their turn."""
    for key, one in zip(keys, new, strict=True):
        if one.heading.flies:
            link_id = parents[one.heading.agreement_id].link_id
            yield key, link_id, now, one.heading.ordered


def _payloads(keys: Sequence[int], new: Sequence[NewMessage]) -> Iterator[Sequence[object]]:
    for key, one in zip(keys, new, strict=True):
        for position, payload in enumerate(one.payloads, start=1):
            yield (
                key,
                position,
                payload.content_type,
                payload.content_id,
                payload.label,
                payload.description,
                one.parts[position - 1],
                len(payload.content),
                one.digests[position - 1],
            )


def _history(new: Sequence[NewMessage], now: int) -> Iterator[Sequence[object]]:
    row = HistoryRow(0, "out", "MessageSubmitted", to_state="queued")
    _, direction, event, _, *others = {**vars(row), "at": now}.values()
    for one in new:
        yield one.heading.agreement.partner_id, direction, event, one.message_id, *others
