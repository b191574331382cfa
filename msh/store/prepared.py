"""One statement that psycopg has prepared, run by one call of libpq.

psycopg waits for each answer in generators that serve asyncio too, and makes a cursor for each
statement. For a short statement that costs more than all else on our side of the connection. Which
statements are prepared, and until when, stays psycopg's affair.
"""

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import abc, adapt
from psycopg._preparing import Prepare
from psycopg._queries import PostgresQuery
from psycopg.errors import error_from_result
from psycopg.pq import DiagnosticField, ExecStatus, PipelineStatus, TransactionStatus

Session = psycopg.Connection[Any]

_transformers: WeakKeyDictionary[Session, abc.Transformer] = WeakKeyDictionary()
"""What makes values of Python into parameters and back, and remembers how."""


def run_prepared(
    session: Session, sql: str, values: Mapping[str, Any], row: Callable[..., Any] | None
) -> list[Any] | None:
    """The rows of the statement, each made by `row` from its columns by name; none without `row`.

    None, with nothing done, if psycopg has not prepared the statement on this session, has to begin
    a transaction first, or gathers a pipeline. Raises what psycopg raises.
    """
    libpq = session.pgconn
    if libpq.pipeline_status != PipelineStatus.OFF:
        return None
    if not session.autocommit and libpq.transaction_status == TransactionStatus.IDLE:
        return None
    transformer = _transformers.get(session)
    if transformer is None:
        transformer = _transformers[session] = adapt.Transformer(session)
    query = PostgresQuery(transformer)
    query.convert(sql, values)
    known = session._prepared  # noqa: SLF001
    prepare, name = known.get(query)
    if prepare is not Prepare.YES:
        return None
    known.maybe_add_to_cache(query, prepare, name)  # the statement that was used last
    result = libpq.exec_prepared(name, query.params, query.formats)  # type: ignore[arg-type]
    if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        if result.error_field(DiagnosticField.SQLSTATE) is None:  # libpq's own: a lost connection
            raise psycopg.OperationalError(result.get_error_message(session.info.encoding))
        raise error_from_result(result, session.info.encoding)
    if row is None:
        return []
    names = [(result.fname(column) or b"").decode() for column in range(result.nfields)]
    transformer.set_pgresult(result)
    found = transformer.load_rows(0, result.ntuples, tuple)
    transformer.set_pgresult(None)
    return [row(**dict(zip(names, columns, strict=True))) for columns in found]
