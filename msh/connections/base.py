"""Django's backend for PostgreSQL, but of several hosts the one that answered last is tried first.

In the order of DATABASE_URL each new connection would wait for a first host that is gone.
"""

from collections.abc import Mapping
from typing import Any

from django.db.backends.postgresql import base

Address = tuple[str, str]
"""A host and its port."""

_answered: Address | None = None
"""Who answered last, for all connections of this process."""


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        global _answered
        made = super().get_new_connection(in_turn(conn_params, _answered))
        _answered = made.info.host, str(made.info.port)
        return made


def in_turn(params: Mapping[str, Any], first: Address | None) -> dict[str, Any]:
    """The parameters of a connection, with the host `first` before the others, if it is one."""
    hosts, ports = (str(params.get(name, "")).split(",") for name in ("host", "port"))
    if first is None or len(hosts) == 1 or len(hosts) != len(ports) or "hostaddr" in params:
        return dict(params)

    def later(address: Address) -> bool:
        host, port = address
        return (host, port or first[1]) != first

    in_order = sorted(zip(hosts, ports, strict=True), key=later)
    return {
        **params,
        "host": ",".join(host for host, _ in in_order),
        "port": ",".join(port for _, port in in_order),
    }
