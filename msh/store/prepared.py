"""Statements run by libpq itself: one by one call, several in one pipeline.

psycopg waits for each answer in generators that serve asyncio too, makes a cursor for each
statement, and in a pipeline sends and polls after each of them. For short statements that costs
more than all else on our side of the connection. Which statements are prepared, and until when,
stays psycopg's affair.
"""

import select
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg
from psycopg import abc, adapt
from psycopg._preparing import Key, Prepare
from psycopg._queries import PostgresQuery
from psycopg.errors import error_from_result
from psycopg.pq import (
    ConnStatus,
    DiagnosticField,
    ExecStatus,
    Format,
    PipelineStatus,
    TransactionStatus,
)
from psycopg.pq.abc import PGconn, PGresult

Session = psycopg.Connection[Any]

_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_OUTDATED = ("0A000", "26000")
"""SQLSTATEs of a prepared statement whose result has other types since a migration, or that the
server does not know any more. In a transaction psycopg forgets all of them with its ROLLBACK."""
_transformers: dict[Session, abc.Transformer] = {}
"""What makes values of Python into parameters and back, and remembers how."""


class Asked(NamedTuple):
    """A statement with its values. Each of its rows is made by `row` from its columns by name; none
    without `row`. `binary`: rows come in PostgreSQL's binary format."""

    sql: str
    values: Mapping[str, Any]
    row: type[Any] | None
    binary: bool


@dataclass(frozen=True, slots=True)
class _Converted:
    """A statement as libpq takes it."""

    query: PostgresQuery
    prepare: Prepare
    name: bytes
    format: Format


def run_directly(
    session: Session, asked: Sequence[Asked], *, begins: bool = False, ends: bool = False
) -> list[list[Any]] | None:
    """The rows of each statement, in one round trip. `begins`: BEGIN goes before them, as it does
    where psycopg would begin a transaction; `ends`: COMMIT goes after them.

    None, with nothing done, if psycopg is to run them: it has to prepare one of them first, or
    gathers a pipeline. Raises what psycopg raises, for the first statement that failed: those after
    it, COMMIT too, are not executed.
    """
    libpq = session.pgconn
    if libpq.pipeline_status != PipelineStatus.OFF:
        return None
    is_idle = libpq.transaction_status == TransactionStatus.IDLE
    begins = begins or (is_idle and not session.autocommit)
    transformer = _transformers.get(session)
    if transformer is None:
        for other in list(_transformers):
            if other.closed:  # its transformer would keep it
                _transformers.pop(other, None)
        transformer = _transformers[session] = adapt.Transformer(session)
    converted = [_convert(session, transformer, one) for one in asked]
    if any(one.prepare is Prepare.SHOULD for one in converted):
        return None
    try:
        if len(converted) == 1 and not (begins or ends):
            results = [_run_one(session, converted[0])]
        else:
            results = _run_together(session, converted, begins=begins, ends=ends)
    except psycopg.Error as error:
        if is_idle and not begins and error.sqlstate in _OUTDATED and _forget_prepared(session):
            return run_directly(session, asked, ends=ends)
        raise
    return [
        _rows(transformer, result, one.sql, one.row) if one.row else []
        for result, one in zip(results, asked, strict=True)
    ]


def _convert(session: Session, transformer: abc.Transformer, asked: Asked) -> _Converted:
    query = PostgresQuery(transformer)
    query.convert(asked.sql, asked.values)
    prepare, name = session._prepared.get(query)  # noqa: SLF001
    return _Converted(query, prepare, name, Format.BINARY if asked.binary else Format.TEXT)


def _forget_prepared(session: Session) -> bool:
    """False if there were none: to run it again would not help."""
    prepared = session._prepared  # noqa: SLF001
    if not prepared.clear():
        return False
    prepared._to_flush.clear()  # noqa: SLF001
    session.pgconn.exec_(b"DEALLOCATE ALL")
    return True


def _note(session: Session, one: _Converted) -> Key | None:
    """Count a use of the statement; its key if it is new."""
    return session._prepared.maybe_add_to_cache(one.query, one.prepare, one.name)  # noqa: SLF001


def _run_one(session: Session, one: _Converted) -> PGresult:
    libpq, query = session.pgconn, one.query
    key = _note(session, one)
    if one.prepare is Prepare.YES:
        result = libpq.exec_prepared(one.name, query.params, query.formats, one.format)  # type: ignore[arg-type]
    else:
        result = libpq.exec_params(
            query.query, query.params, query.types, query.formats, one.format
        )
    if key is not None:
        session._prepared.validate(key, one.prepare, one.name, [result])  # noqa: SLF001
    if result.status not in _GOOD:
        raise _error(session, result)
    return result


def _run_together(
    session: Session, converted: Sequence[_Converted], *, begins: bool, ends: bool
) -> list[PGresult]:
    libpq = session.pgconn
    keys = [_note(session, one) for one in converted]
    try:
        libpq.enter_pipeline_mode()
        if begins:
            libpq.send_query_params(session._get_tx_start_command(), None)  # noqa: SLF001
        for one in converted:
            _send(libpq, one)
        if ends:
            libpq.send_query_params(b"COMMIT", None)
        libpq.pipeline_sync()
        results = _results(libpq)
        libpq.exit_pipeline_mode()
    except BaseException:
        session.close()  # nobody knows what is under way on it
        raise
    for result in results:
        if result.status not in _GOOD:
            raise _error(session, result)
    own = results[begins : len(results) - ends]
    for key, one, result in zip(keys, converted, own, strict=True):
        if key is not None:
            session._prepared.validate(key, one.prepare, one.name, [result])  # noqa: SLF001
    return own


def _send(libpq: PGconn, one: _Converted) -> None:
    query = one.query
    if one.prepare is Prepare.YES:
        libpq.send_query_prepared(one.name, query.params, query.formats, one.format)
    else:
        libpq.send_query_params(query.query, query.params, query.types, query.formats, one.format)


def _results(libpq: PGconn) -> list[PGresult]:
    """Of everything up to the synchronisation, in order. While much is sent, libpq reads what is
    answered meanwhile. Raises OperationalError if the connection is lost."""
    poll = select.poll()
    socket = libpq.socket
    poll.register(socket, select.POLLIN | select.POLLOUT)
    while libpq.flush():
        poll.poll()
    poll.modify(socket, select.POLLIN)
    results: list[PGresult] = []
    while True:
        while libpq.is_busy():
            poll.poll()  # the interpreter is free meanwhile; get_result() would keep it
            libpq.consume_input()
        result = libpq.get_result()
        if result is None:  # the end of one statement's results
            if libpq.status != ConnStatus.OK:
                raise psycopg.OperationalError(libpq.get_error_message())
            continue
        if result.status == ExecStatus.PIPELINE_SYNC:
            return results
        results.append(result)


def _error(session: Session, result: PGresult) -> psycopg.Error:
    encoding = session.info.encoding
    if result.error_field(DiagnosticField.SQLSTATE) is None:  # libpq's own: a lost connection
        return psycopg.OperationalError(result.get_error_message(encoding))
    return error_from_result(result, encoding)


_columns: dict[str, list[str]] = {}
"""Of each statement of `msh/store/`, the names of its columns, read from its first result."""


def _rows(transformer: abc.Transformer, result: PGresult, sql: str, row: type[Any]) -> list[Any]:
    if not result.ntuples:
        return []
    names = _columns.get(sql)
    if names is None:
        names = [(result.fname(column) or b"").decode() for column in range(result.nfields)]
        _columns[sql] = names
    transformer.set_pgresult(result)
    found = transformer.load_rows(0, result.ntuples, tuple)
    transformer.set_pgresult(None)
    return [row(**dict(zip(names, columns, strict=True))) for columns in found]
