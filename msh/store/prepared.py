"""Statements run by libpq itself (`psycopg.pq`): one by one call, several in one pipeline.

A cursor of psycopg waits for each answer in generators that serve asyncio too, is made for each
statement, and in a pipeline sends and polls after each of them. For short statements that costs
more than all else on our side of the connection. Values are translated by psycopg's adapters, and
`prepare_threshold` and `prepared_max` of its connection say what is prepared.
"""

import functools
import re
import select
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import psycopg
from psycopg import abc
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

Session = psycopg.Connection[Any]

_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_OUTDATED = ("0A000", "26000")
"""SQLSTATEs of a prepared statement whose result has other types since a migration, or that the
server does not know any more."""


class Asked(NamedTuple):
    """A statement with its values. Each of its rows is made by `row` from its columns by name; none
    without `row`. `binary`: rows come in PostgreSQL's binary format. `planned_anew`: it is never
    prepared."""

    sql: str
    values: Mapping[str, Any]
    row: type[Any] | None
    binary: bool
    planned_anew: bool


@dataclass(slots=True)
class _Converted:
    """A statement as libpq takes it."""

    query: bytes
    values: Sequence[abc.Buffer | None]
    types: tuple[int, ...]
    formats: Sequence[Format]
    answer: Format
    planned_anew: bool
    name: bytes = b""
    """Empty if it is not prepared."""
    is_new: bool = False
    """Whether it has to be prepared before it is run."""


class _Text(NamedTuple):
    """A statement with $1, $2 and so on in place of its parameters."""

    query: bytes
    names: tuple[str, ...]
    formats: tuple[PyFormat, ...]


_PARAMETER = re.compile(r"%%|%\((\w+)\)([sb])")


@functools.cache
def _numbered(sql: str) -> _Text:
    numbers: dict[str, int] = {}
    formats: dict[str, PyFormat] = {}

    def number(found: re.Match[str]) -> str:
        name, form = found.groups()
        if name is None:
            return "%"
        formats[name] = PyFormat.BINARY if form == "b" else PyFormat.AUTO
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    query = _PARAMETER.sub(number, sql).encode()
    return _Text(query, tuple(numbers), tuple(formats.values()))


class _Prepared:
    """The statements that are prepared on one session, and how often others have been run on it. A
    ROLLBACK changes neither. PostgreSQL plans a statement again when its tables have changed."""

    def __init__(self, session: Session) -> None:
        self.transformer: abc.Transformer = Transformer(session)
        self._session = session
        self._uses: Counter[tuple[bytes, tuple[int, ...]]] = Counter()
        self._names: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._numbers = count()
        self._is_forgotten = False

    def convert(self, asked: Asked) -> _Converted:
        text = _numbered(asked.sql)
        given = [asked.values[name] for name in text.names]
        values = self.transformer.dump_sequence(given, text.formats)
        types, formats = self.transformer.types or (), self.transformer.formats or ()
        answer = Format.BINARY if asked.binary else Format.TEXT
        return _Converted(text.query, values, types, formats, answer, asked.planned_anew)

    def name(self, one: _Converted) -> None:
        """Find the name of a statement, or give it one if it has been run often enough."""
        if one.planned_anew:
            return
        key = one.query, one.types
        if known := self._names.get(key):
            one.name = known
            return
        threshold, most = self._session.prepare_threshold, self._session.prepared_max
        if threshold is None or self._is_forgotten:
            return
        if self._uses[key] < threshold:
            self._uses[key] += 1
        elif most is not None and len(self._names) >= most:
            self.forget()
        else:
            one.name = self._names[key] = b"msh_%d" % next(self._numbers)
            one.is_new = True

    def drop(self, one: _Converted) -> None:
        """PostgreSQL has not prepared it."""
        self._names.pop((one.query, one.types), None)

    def forget(self) -> bool:
        """False if nothing is prepared: to run it again would not help."""
        self._uses.clear()
        if not self._names:
            return False
        self._names.clear()
        self._is_forgotten = True
        return True

    def deallocate(self) -> None:
        """Deallocate the statements that were dropped here. PostgreSQL would refuse that in a
        failed transaction."""
        libpq = self._session.pgconn
        if self._is_forgotten and libpq.transaction_status != TransactionStatus.INERROR:
            libpq.exec_(b"DEALLOCATE ALL")
            self._is_forgotten = False


_prepared: dict[Session, _Prepared] = {}


def _prepared_on(session: Session) -> _Prepared:
    known = _prepared.get(session)
    if known is None:
        for other in list(_prepared):
            if other.closed:  # its transformer would keep it
                _prepared.pop(other, None)
        known = _prepared[session] = _Prepared(session)
    return known


def execute(
    session: Session, asked: Sequence[Asked], *, begins: bool = False, ends: bool = False
) -> list[list[Any]]:
    """The rows of each statement, in one round trip. `begins`: BEGIN goes before them, as it does
    where psycopg would begin a transaction; `ends`: COMMIT goes after them.

    Raises what psycopg raises, for the first statement that failed: those after it, COMMIT too, are
    not executed.
    """
    prepared = _prepared_on(session)
    prepared.deallocate()
    is_idle = session.pgconn.transaction_status == TransactionStatus.IDLE
    begins = begins or (is_idle and not session.autocommit)
    try:
        converted = [prepared.convert(one) for one in asked]
        for one in converted:
            prepared.name(one)
        if len(converted) == 1 and not (begins or ends or converted[0].is_new):
            results = [_run_one(session, converted[0])]
        else:
            results = _run_together(session, converted, begins=begins, ends=ends)
    except psycopg.Error as error:
        if error.sqlstate in _OUTDATED and prepared.forget() and is_idle and not begins:
            return execute(session, asked, ends=ends)
        raise
    return [
        _rows(prepared.transformer, result, one.sql, one.row) if one.row else []
        for result, one in zip(results, asked, strict=True)
    ]


def _run_one(session: Session, one: _Converted) -> PGresult:
    libpq = session.pgconn
    if one.name:
        result = libpq.exec_prepared(one.name, one.values, one.formats, one.answer)  # type: ignore[arg-type]
    else:
        result = libpq.exec_params(one.query, one.values, one.types, one.formats, one.answer)
    if result.status not in _GOOD:
        raise _error(session, result)
    return result


def _run_together(
    session: Session, converted: Sequence[_Converted], *, begins: bool, ends: bool
) -> list[PGresult]:
    libpq = session.pgconn
    places: list[int] = []  # of the statements' results among all
    try:
        libpq.enter_pipeline_mode()
        if begins:
            level = session.isolation_level
            of_level = f" ISOLATION LEVEL {level.name.replace('_', ' ')}" if level else ""
            libpq.send_query_params(f"BEGIN{of_level}".encode(), None)
        place = int(begins)
        for one in converted:
            _send(libpq, one)
            place += one.is_new
            places.append(place)
            place += 1
        if ends:
            libpq.send_query_params(b"COMMIT", None)
        libpq.pipeline_sync()
        results = _results(libpq)
        libpq.exit_pipeline_mode()
    except BaseException:
        session.close()  # nobody knows what is under way on it
        raise
    failed = next((one for one in results if one.status not in _GOOD), None)
    if failed is not None:
        for one, place in zip(converted, places, strict=True):
            if one.is_new and results[place - 1].status not in _GOOD:
                _prepared_on(session).drop(one)
        raise _error(session, failed)
    return [results[place] for place in places]


def _send(libpq: PGconn, one: _Converted) -> None:
    if one.is_new:
        libpq.send_prepare(one.name, one.query, one.types)
    if one.name:
        libpq.send_query_prepared(one.name, one.values, one.formats, one.answer)
    else:
        libpq.send_query_params(one.query, one.values, one.types, one.formats, one.answer)


def _results(libpq: PGconn) -> list[PGresult]:
    """Return the results of everything up to the synchronisation point, in order. libpq reads
    answers also while it sends. Raises OperationalError if the connection is lost."""
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
"""The names of the columns of each statement of `msh/store/`, read from its first result."""


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
