"""Django's backend for PostgreSQL, but of several hosts the one that answered last is tried first,
and one that has just lost a session last.

In the order of DATABASE_URL each new connection would wait for a first host that is gone, and after
the loss of a session for the host that is gone now.

After an error, a session that is read-only counts as lost: its server is, or was, a standby, and
the address may lead to another one by now.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg.abc import Buffer
from psycopg.types.datetime import TimestamptzLoader

Address = tuple[str, str]
"""A host and its port."""

PREPARED = 500
"""Statements that are kept prepared on a session. The store has fewer, but some are prepared for
small and for large numbers."""
_answered: Address | None = None
"""The host that answered last, for all connections of this process."""
_lost: Address | None = None
"""The host that has lost a session since then."""


class _Moments(TimestamptzLoader):
    """Reads a timestamp in a fifteenth of the time of Django's loader, which is written in Python.

    The session is in UTC: Django sees to it, and compares `timezone`."""

    timezone = UTC

    def load(self, data: Buffer) -> datetime:
        try:
            return datetime.fromisoformat(str(data, "ascii"))
        except ValueError:  # beyond the years of Python: an error that says so
            return super().load(data)


class DatabaseWrapper(base.DatabaseWrapper):
    _address: Address | None = None

    def get_new_connection(self, conn_params: Mapping[str, object]) -> Any:
        global _answered, _lost
        made = super().get_new_connection(in_turn(conn_params, _answered, _lost))
        self._address = _answered = made.info.host, str(made.info.port)
        _lost = None
        made.prepared_max = PREPARED
        made.adapters.register_loader("timestamptz", _Moments)
        return made

    def is_usable(self) -> bool:
        global _answered, _lost
        usable: bool = self._takes_writes() if self.errors_occurred else super().is_usable()
        if not usable and self._address == _answered:
            _answered, _lost = None, self._address
        return usable

    def _takes_writes(self) -> bool:
        if self.connection is None:  # the error was that of connecting
            return False
        try:
            with self.connection.cursor() as cursor:
                return bool(cursor.execute("SHOW transaction_read_only").fetchone() == ("off",))
        except psycopg.Error:
            return False


def in_turn(
    params: Mapping[str, object], first: Address | None, last: Address | None = None
) -> dict[str, object]:
    """The parameters of a connection, with the host `first` before the others, if it is one, and
    the host `last` after them."""
    hosts, ports = (str(params.get(name, "")).split(",") for name in ("host", "port"))
    named = first or last
    if named is None or len(hosts) == 1 or len(hosts) != len(ports) or "hostaddr" in params:
        return dict(params)

    def place(address: Address) -> int:
        host, port = address
        known = host, port or named[1]
        return (known != first) + (known == last)

    in_order = sorted(zip(hosts, ports, strict=True), key=place)
    return {
        **params,
        "host": ",".join(host for host, _ in in_order),
        "port": ",".join(port for _, port in in_order),
    }
