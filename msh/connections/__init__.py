"""How DATABASE_URL and REDIS_URL become settings: every option in them counts, ours are defaults.

Without time limits, a connection whose other end has vanished without a reset (a host that died, an
address that moved, a firewall that dropped the flow) blocks its process for 15 minutes to 2 hours.
"""

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    import redis

_LIMITS: dict[str, Any] = {
    # A server that is gone is noticed 8 seconds after it was heard or written to last: keepalives
    # tell it, or what was sent and never confirmed.
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8_000,  # milliseconds
}

# --- PostgreSQL -----------------------------------------------------------------------------------
ENGINE = "msh.connections"
"""Django's backend, in `msh/connections/base.py`."""
SESSION_LIMITS = {
    # A lock not had in 2 s is a 503, and a stopped process cannot hold a lane.
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "10s",
}
_SESSION = {
    **SESSION_LIMITS,
    "synchronous_commit": "on",  # an Acknowledgement says that its message is on the disk
    # The server ends the sessions of hosts that have vanished after 8 seconds too, instead of
    # keeping their locks for hours: their idle_in_transaction_session_timeout does not run while
    # the server waits for the rest of a pipeline, or for room for its answer.
    "tcp_keepalives_idle": "4",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "8000",  # milliseconds
    "jit": "off",  # compiling costs more than it saves in statements as short as ours
}
_DATABASE = {
    **_LIMITS,
    "connect_timeout": 5,  # seconds, for each host
    # Statements of the hot path are prepared after their fifth run; Django says never.
    "prepare_threshold": 5,
}
_WRITABLE = {"target_session_attrs": "read-write"}
"""With several hosts, libpq chooses the primary: the others are usually standbys."""


OF_DJANGO = {"prepare_threshold", "isolation_level", "assume_role", "pool", "server_side_binding"}
"""Options that are not libpq's."""


def database_settings(url: str) -> dict[str, Any]:
    """DATABASES["default"] for a DATABASE_URL.

    What its query says goes to libpq and wins over our defaults; `options` is added to ours.
    """
    read = environ.Env.db_url_config(url)
    given = {name: _none(value) for name, value in read.pop("OPTIONS", {}).items()}
    session = [f"-c {name}={value}" for name, value in _SESSION.items()]
    options = " ".join([*session, *filter(None, [given.pop("options", "")])])
    hosts = _hosts(url)
    ours = {**_DATABASE, **(_WRITABLE if hosts else {}), **given, "options": options}
    return {
        "CONN_MAX_AGE": 3600,
        "CONN_HEALTH_CHECKS": True,
        # Who cannot keep prepared statements cannot keep cursors either.
        "DISABLE_SERVER_SIDE_CURSORS": ours["prepare_threshold"] is None,
        **read,
        **_engine(read["ENGINE"]),
        **hosts,
        "OPTIONS": ours,
    }


def _engine(named: str) -> dict[str, str]:
    """Ours in place of Django's; of another database the start-up check says that it is wrong."""
    return {"ENGINE": ENGINE} if named == "django.db.backends.postgresql" else {}


def _hosts(url: str) -> dict[str, str]:
    """Several hosts, each with its own port: libpq tries them in turn. django-environ drops the
    place of a port that is not given, so that a host would get another one's."""
    hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
    if len(hosts) == 1:
        return {}
    parts = [urlsplit(f"//{host}") for host in hosts]
    return {
        "HOST": ",".join(part.hostname or "" for part in parts),
        "PORT": ",".join(str(part.port or "") for part in parts),
    }


def _none(value: str) -> str | None:
    """`prepare_threshold=none`, for a pooler that cannot keep prepared statements."""
    return None if value == "none" else value


# --- Redis ----------------------------------------------------------------------------------------
class Broker(NamedTuple):
    """One Redis server, as Celery and as our own clients take it."""

    celery_url: str
    celery_options: dict[str, Any]
    """Celery's `broker_transport_options`: keyword arguments of redis-py's connections."""
    tls: dict[str, Any]
    """Empty: without TLS."""


def _truth(text: str) -> bool:
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[
        text.lower()
    ]


_BROKER: dict[str, Any] = {
    "socket_connect_timeout": 5.0,  # seconds
    "socket_timeout": 10.0,
    "socket_keepalive": True,
    "health_check_interval": 5,
    **_LIMITS,
}
_TCP = {
    "keepalives_idle": "TCP_KEEPIDLE",
    "keepalives_interval": "TCP_KEEPINTVL",
    "keepalives_count": "TCP_KEEPCNT",
    "tcp_user_timeout": "TCP_USER_TIMEOUT",
}
"""Options in the words of libpq: names in the module `socket`, where the system has them."""
_BROKER_TYPES: dict[str, Callable[[str], Any]] = {
    "db": int,
    "socket_timeout": float,
    "socket_connect_timeout": float,
    "socket_keepalive": _truth,
    "health_check_interval": int,
    "retry_on_timeout": _truth,
    "max_connections": int,
    "client_name": str,
    **dict.fromkeys(_TCP, int),
    "ssl_cert_reqs": lambda text: text.lower().removeprefix("cert_"),
    "ssl_ca_certs": str,
    "ssl_ca_path": str,
    "ssl_ca_data": str,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "ssl_password": str,
    "ssl_check_hostname": _truth,
    "ssl_min_version": int,
    "ssl_ciphers": str,
}
"""Query parameters that Celery and our own clients both understand. Each reads such a query in its
own way, and Celery fails on most of these names."""


def broker_settings(url: str) -> Broker:
    """Parse a REDIS_URL. Raises ImproperlyConfigured for parameters that Celery or redis-py do not
    support."""
    parts = urlsplit(url)
    _require_one_server(parts)
    options = dict(_read(name, text) for name, text in parse_qsl(parts.query))
    database = options.pop("db", parts.path.strip("/") or 0)
    tls = {name: options.pop(name) for name in list(options) if name.startswith("ssl_")}
    if parts.scheme == "rediss":  # Celery would not ask for a certificate
        tls = {"ssl_cert_reqs": "required", **tls}
    elif tls:
        raise ImproperlyConfigured("REDIS_URL has options of TLS: it has to begin with rediss://")
    plain = parts._replace(path=f"/{database}", query="").geturl()
    return Broker(plain, _with_tcp({**_BROKER, **options}), tls)


def _with_tcp(options: dict[str, Any]) -> dict[str, Any]:
    given = {getattr(socket, name, None): options.pop(option) for option, name in _TCP.items()}
    given.pop(None, None)
    return {**options, "socket_keepalive_options": given}


def redis_client(url: str, **options: object) -> "redis.Redis":
    """A client of the server of REDIS_URL; `options` win over those of the URL."""
    broker = broker_settings(url)
    import redis  # noqa: PLC0415  slow to import, and every command reads the settings

    pool = redis.ConnectionPool.from_url(
        broker.celery_url, **{**broker.celery_options, **broker.tls, **options}
    )
    return redis.Redis.from_pool(pool)


def _require_one_server(parts: SplitResult) -> None:
    if parts.scheme not in {"redis", "rediss"}:
        begins = f"REDIS_URL begins with {parts.scheme}://"
        raise ImproperlyConfigured(f"{begins}, not redis:// or rediss://")
    if {",", ";"} & set(parts.netloc.rpartition("@")[2] + parts.path):
        raise ImproperlyConfigured(
            "REDIS_URL names several hosts: name one, whose address moves when another server"
            " takes over"
        )


def _read(name: str, text: str) -> tuple[str, Any]:
    if name not in _BROKER_TYPES:
        known = ", ".join(_BROKER_TYPES)
        raise ImproperlyConfigured(f"REDIS_URL has an option {name!r}. Known are: {known}")
    try:
        return name, _BROKER_TYPES[name](text)
    except (KeyError, ValueError):
        raise ImproperlyConfigured(f"REDIS_URL says {name}={text}, which cannot be") from None
