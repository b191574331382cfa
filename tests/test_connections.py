"""What DATABASE_URL and REDIS_URL say reaches the clients; what they do not say has time limits."""

import runpy
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DataError, InternalError, OperationalError, ProgrammingError, connection
from kombu import Connection

import msh
from msh.connections import base, broker_settings, database_settings, redis_client
from msh.connections.base import DatabaseWrapper, in_turn

PLAIN = "redis://cache.example"
TLS = "rediss://:secret@cache.example:6380/3"


def test_database_url_keeps_its_options() -> None:
    """sslmode=verify-full that is thrown away is a connection in the clear."""
    given = database_settings(
        "postgres://u:p%40@db.example:5433/msh?sslmode=verify-full&sslrootcert=/etc/ca%20s.pem"
        "&keepalives_idle=60&target_session_attrs=read-write&application_name=orders"
        "&conn_max_age=5"
    )
    said = {
        "sslmode": "verify-full",
        "sslrootcert": "/etc/ca s.pem",
        "keepalives_idle": 60,
        "target_session_attrs": "read-write",
        "application_name": "orders",
    }
    assert given["OPTIONS"].items() >= said.items()
    assert (given["HOST"], given["PORT"], given["CONN_MAX_AGE"]) == ("db.example", 5433, 5)


def test_options_of_the_session_are_added_to_ours_and_win() -> None:
    url = "postgres:///msh?options=-c%20lock_timeout%3D9s%20-c%20work_mem%3D64MB"
    options = database_settings(url)["OPTIONS"]["options"]
    assert options.startswith("-c lock_timeout=2s -c idle_in_transaction_session_timeout=10s")
    assert options.endswith(" -c lock_timeout=9s -c work_mem=64MB")


@pytest.mark.django_db
def test_server_that_says_to_commit_without_the_disk_is_not_followed() -> None:
    name = connection.settings_dict["NAME"]

    def in_another_session(*statements: str) -> Any:
        other = DatabaseWrapper(connection.settings_dict)
        try:
            with other.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return cursor.fetchone() if cursor.description else None
        finally:
            other.close()

    in_another_session(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    try:
        assert in_another_session("SHOW synchronous_commit") == ("on",)
    finally:
        in_another_session(f'ALTER DATABASE "{name}" RESET synchronous_commit')


@pytest.mark.parametrize(
    ("query", "threshold", "without_cursors"),
    [
        ("", 5, False),
        ("?prepare_threshold=none", None, True),
        ("?disable_server_side_cursors=True", 5, True),
    ],
)
def test_options_that_a_transaction_pooler_breaks_are_off(
    query: str, threshold: int | None, without_cursors: bool
) -> None:
    """Prepared statements, and cursors on the server: the next FETCH may come to another one."""
    made = database_settings(f"postgres:///msh{query}")
    assert made["OPTIONS"]["prepare_threshold"] == threshold
    assert made["DISABLE_SERVER_SIDE_CURSORS"] is without_cursors


def test_each_of_several_hosts_keeps_its_port() -> None:
    given = database_settings("postgres://u:p@a.example,[::1]:5433,c.example:5434/msh")
    assert (given["HOST"], given["PORT"]) == ("a.example,::1,c.example", ",5433,5434")


def test_unix_socket_is_given_as_the_option_host() -> None:
    given = database_settings("postgres://msh:secret@/orders?host=/run/postgresql")
    wrapper = DatabaseWrapper(connection.settings_dict | {"HOST": "", "PORT": ""} | given)
    named = {"host": "/run/postgresql", "user": "msh", "password": "secret", "dbname": "orders"}
    assert wrapper.get_connection_params().items() >= named.items()
    assert "port" not in wrapper.get_connection_params()


def test_of_several_hosts_the_one_that_can_be_written_to_is_used() -> None:
    one, several = "postgres://a.example/msh", "postgres://a.example,b.example/msh"
    assert "target_session_attrs" not in database_settings(one)["OPTIONS"]
    assert database_settings(several)["OPTIONS"]["target_session_attrs"] == "read-write"
    given = database_settings(f"{several}?target_session_attrs=any")
    assert given["OPTIONS"]["target_session_attrs"] == "any"


@pytest.mark.django_db
def test_session_is_opened_on_the_writable_host() -> None:
    here = settings.DATABASES["default"]
    hosts = f"127.0.0.1:1,{here['HOST']}:{here['PORT']}"
    query = "target_session_attrs=read-write&application_name=from-url&connect_timeout=2"
    url = f"postgres://{here['USER']}:{here['PASSWORD']}@{hosts}/{connection.settings_dict['NAME']}"
    wrapper = DatabaseWrapper(connection.settings_dict | database_settings(f"{url}?{query}"))
    try:
        with wrapper.cursor() as cursor:
            cursor.execute("SELECT current_setting('application_name')")
            assert cursor.fetchone() == ("from-url",)
    finally:
        wrapper.close()


@pytest.mark.django_db
def test_host_that_answered_last_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each new connection waits for one that is gone."""
    monkeypatch.setattr(base, "_answered", None)
    here = settings.DATABASES["default"]
    with socket.create_server(("127.0.0.1", 0)) as gone:
        hosts = f"127.0.0.1:{gone.getsockname()[1]},{here['HOST']}:{here['PORT']}"
        name = connection.settings_dict["NAME"]
        url = f"postgres://{here['USER']}:{here['PASSWORD']}@{hosts}/{name}?connect_timeout=2"
        for _ in range(2):
            wrapper = DatabaseWrapper(connection.settings_dict | database_settings(url))
            wrapper.ensure_connection()
            wrapper.close()
        gone.settimeout(0)
        gone.accept()[0].close()
        with pytest.raises(BlockingIOError):
            gone.accept()


@pytest.mark.django_db
def test_host_that_has_lost_a_session_is_tried_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each new connection waits for one that is gone until another has answered."""
    monkeypatch.setattr(base, "_answered", None)
    monkeypatch.setattr(base, "_lost", None)
    here = settings.DATABASES["default"]
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0)
        hosts = f"{here['HOST']}:{here['PORT']},127.0.0.1:{other.getsockname()[1]}"
        name = connection.settings_dict["NAME"]
        url = f"postgres://{here['USER']}:{here['PASSWORD']}@{hosts}/{name}?connect_timeout=2"
        wrapper = DatabaseWrapper(connection.settings_dict | database_settings(url))
        wrapper.ensure_connection()
        assert wrapper.is_usable()
        with connection.cursor() as cursor:
            pid = wrapper.connection.info.backend_pid
            cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
        with pytest.raises(BlockingIOError):
            other.accept()
        assert not wrapper.is_usable()
        wrapper.close()
        wrapper.ensure_connection()
        other.accept()[0].close()
        wrapper.close()
        wrapper.ensure_connection()
        wrapper.close()
        with pytest.raises(BlockingIOError):
            other.accept()


@pytest.mark.parametrize(
    ("hosts", "ports", "first", "then"),
    [
        ("a,b,c", "1,2,3", ("b", "2"), ("b,a,c", "2,1,3")),
        ("a,b", "1,1", ("a", "1"), ("a,b", "1,1")),
        ("a,a", "1,2", ("a", "2"), ("a,a", "2,1")),
        ("a,b", ",", ("b", "5432"), ("b,a", ",")),
        ("a,b", "1,2", None, ("a,b", "1,2")),
        ("a,b", "1,2", ("c", "1"), ("a,b", "1,2")),
        ("a", "1", ("b", "1"), ("a", "1")),
    ],
)
def test_hosts_keep_their_ports_in_whatever_order(
    hosts: str, ports: str, first: tuple[str, str] | None, then: tuple[str, str]
) -> None:
    given = in_turn({"host": hosts, "port": ports, "dbname": "msh"}, first)
    assert given == {"host": then[0], "port": then[1], "dbname": "msh"}


@pytest.mark.parametrize(
    ("ports", "last", "then"),
    [
        ("1,2,3", ("a", "1"), ("b,c,a", "2,3,1")),
        (",,", ("b", "5432"), ("a,c,b", ",,")),
        ("1,2,3", ("d", "1"), ("a,b,c", "1,2,3")),
    ],
)
def test_host_that_comes_last(ports: str, last: tuple[str, str], then: tuple[str, str]) -> None:
    given = in_turn({"host": "a,b,c", "port": ports}, None, last)
    assert given == {"host": then[0], "port": then[1]}


def test_parameters_without_a_host_are_left_alone() -> None:
    assert in_turn({"dbname": "msh"}, ("a", "1")) == {"dbname": "msh"}


def test_broker_url_keeps_its_options_in_celery_and_in_our_clients() -> None:
    query = "socket_timeout=7&health_check_interval=9&client_name=msh"
    url = f"{TLS}?ssl_ca_certs=/etc/ca.pem&{query}"
    broker = broker_settings(url)
    of_url = {"socket_timeout": 7.0, "health_check_interval": 9, "client_name": "msh"}
    expected = of_url | {"ssl_ca_certs": "/etc/ca.pem", "ssl_cert_reqs": "required", "db": 3}
    assert celery_connection(url).items() >= expected.items()
    assert redis_client(url).get_connection_kwargs().items() >= expected.items()
    assert broker.celery_url == TLS


def test_connections_to_redis_have_limits_of_time() -> None:
    for made in (celery_connection(PLAIN), redis_client(PLAIN).get_connection_kwargs()):
        assert made["socket_connect_timeout"] == 5
        assert made["socket_timeout"] == 10
        assert made["health_check_interval"] == 5
        assert made["socket_keepalive"] is True
        assert made["socket_keepalive_options"][socket.TCP_KEEPIDLE] == 4
    given = celery_connection(f"{PLAIN}?keepalives_idle=60")["socket_keepalive_options"]
    assert given[socket.TCP_KEEPIDLE] == 60


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("2026-11-28 01:02:03.450407+00", datetime(2026, 11, 28, 1, 2, 3, 450_407, UTC)),
        ("2026-11-28 01:02:03.45+00", datetime(2026, 11, 28, 1, 2, 3, 450_000, UTC)),
        ("2026-11-28 01:02:03+00", datetime(2026, 11, 28, 1, 2, 3, tzinfo=UTC)),
        ("2026-11-28 01:02:03.000001+05:30", datetime(2026, 11, 27, 19, 32, 3, 1, UTC)),
        ("0001-01-01 00:00:00+00", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31 23:59:59.999999+00", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_moments_are_read_in_utc(said: str, read: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz", [said])
        (found,) = cursor.fetchone()
    assert (found, found.tzinfo) == (read, UTC)


@pytest.mark.django_db
@pytest.mark.parametrize("said", ["infinity", "0044-03-15 12:00:00+00 BC", "10000-01-01 00:00+00"])
def test_moment_that_python_does_not_have_is_an_error(said: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz", [said])
        with pytest.raises(DataError, match="timestamp"):
            cursor.fetchone()


@pytest.mark.django_db
def test_connections_to_postgresql_have_limits_of_time() -> None:
    with connection.cursor():
        assert connection.connection is not None
        link = socket.fromfd(connection.connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
    with link:
        assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 4
        assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 8_000


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tcp_keepalives_idle", "4"),
        ("tcp_keepalives_interval", "2"),
        ("tcp_keepalives_count", "3"),
        ("tcp_user_timeout", "8000"),
    ],
)
def test_server_ends_sessions_of_hosts_that_have_vanished_as_soon(name: str, value: str) -> None:
    """It is asked for what it set on its socket. Until then such a session keeps its locks."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        assert cursor.fetchone() == (value,)


def test_a_limit_of_ours_wins_over_the_url() -> None:
    """A wake-up may take 100 ms, whatever the URL allows to others."""
    client = redis_client("redis://cache.example?socket_timeout=30", socket_timeout=0.1)
    assert client.get_connection_kwargs()["socket_timeout"] == 0.1


@pytest.mark.parametrize("url", [TLS, f"{TLS}?ssl_cert_reqs=required"])
def test_tls_requires_a_certificate_by_default(url: str) -> None:
    """Celery's own default is to take any."""
    assert celery_connection(url)["ssl_cert_reqs"] == "required"
    made: Any = redis_client(url).connection_pool.make_connection()
    assert made.cert_reqs == ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://a:6379,b:6379/0", "several hosts"),
        ("redis://a:6379/0;redis://b:6379/0", "several hosts"),
        ("sentinel://a:26379/0", "begins with sentinel://"),
        ("redis://a/0?sokcet_timeout=3", "sokcet_timeout"),
        ("redis://a/0?ssl_ca_certs=/etc/ca.pem", "rediss://"),
        ("redis://a/0?socket_timeout=soon", "socket_timeout"),
    ],
)
def test_broker_url_that_cannot_be_followed_is_refused(url: str, said: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=said):
        broker_settings(url)


def test_settings_are_made_from_the_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://db.example/msh?sslmode=verify-full")
    monkeypatch.setenv("REDIS_URL", f"{TLS}?client_name=msh")
    made = runpy.run_path(str(Path(msh.__file__).with_name("settings.py")))
    assert made["DATABASES"]["default"]["OPTIONS"]["sslmode"] == "verify-full"
    assert made["CELERY_BROKER_URL"] == TLS
    assert made["CELERY_BROKER_TRANSPORT_OPTIONS"]["client_name"] == "msh"
    assert made["CELERY_BROKER_USE_SSL"] == {"ssl_cert_reqs": "required"}


def celery_connection(url: str) -> dict[str, Any]:
    """What a connection of Celery's to this broker is made with."""
    broker = broker_settings(url)
    with Connection(
        broker.celery_url, ssl=broker.tls or False, transport_options=broker.celery_options
    ) as link:
        transport: Any = link.transport
        channel = transport.Channel.__new__(transport.Channel)
        channel.connection = transport
        for name in set(channel.from_transport_options) & broker.celery_options.keys():
            setattr(channel, name, broker.celery_options[name])
        made: dict[str, Any] = channel._connparams()
        return made


@pytest.mark.django_db
def test_session_of_a_standby_is_given_up_after_an_error() -> None:
    """A standby answers, and takes nothing; its session stays when the address leads elsewhere."""
    wrapper = DatabaseWrapper(connection.settings_dict)
    try:
        with wrapper.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")
        assert wrapper.is_usable()
        with pytest.raises(InternalError), wrapper.cursor() as cursor:
            cursor.execute("CREATE TABLE refused ()")
        wrapper.close_if_unusable_or_obsolete()
        assert wrapper.connection is None
        wrapper.ensure_connection()
        with pytest.raises(ProgrammingError), wrapper.cursor() as cursor:
            cursor.execute("no SQL")
        wrapper.close_if_unusable_or_obsolete()
        assert wrapper.connection is not None
    finally:
        wrapper.close()


@pytest.mark.django_db
def test_wrapper_that_could_not_connect_is_not_usable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        port = closed_soon.getsockname()[1]
    url = f"postgres://nobody@127.0.0.1:{port}/none?connect_timeout=2"
    wrapper = DatabaseWrapper(connection.settings_dict | database_settings(url))
    with pytest.raises(OperationalError):
        wrapper.ensure_connection()
    assert not wrapper.is_usable()
