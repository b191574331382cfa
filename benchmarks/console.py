"""`make bench-console`: how long the server takes for each page of the console, and how many
queries, with few messages and with many. Written to var/bench-console.json; fails if a page is slow
or asks more with more.

The shortest of some rounds counts, as the machine may have other work. Beside it stands the CPU
time of this process and of its database session: waiting is what is left.
"""

import argparse
import base64
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
from rich.console import Console
from rich.table import Table

from msh.standalone.embedded import EmbeddedServers

from .report import tell

if TYPE_CHECKING:
    from .console_pages import Address

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300.0  # milliseconds
PARTNERS = 1_000
ROUNDS = 15


@dataclass(frozen=True, slots=True)
class Measured:
    """One page at one size: its shortest round and its least CPU in milliseconds, its queries, and
    its bytes as they go over the wire."""

    least_ms: float
    cpu_ms: float
    database_cpu_ms: float
    queries: int
    bytes: int


def main() -> int:
    arguments = _arguments()
    folder = ROOT / "var" / "bench-console"
    shutil.rmtree(folder, ignore_errors=True)
    with EmbeddedServers(folder) as servers:
        _begin(servers.settings)
        results = {size: _at(size, arguments.rounds) for size in sorted(arguments.messages)}
    shutil.rmtree(folder)  # kept where a run failed
    _write(results)
    _show(results)
    return 0 if _holds(results) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-console", description=__doc__)
    parser.add_argument("--messages", type=int, nargs="+", default=[1_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"({ROUNDS})")
    return parser.parse_args()


def _begin(servers: Mapping[str, str]) -> None:
    """An empty MSH in this process, with its partners."""
    os.environ |= {**servers} | {
        "DJANGO_SETTINGS_MODULE": "msh.settings",
        "MSH_URI": "http://msh.example/ebxml/",
        "SECRET_KEY": secrets.token_urlsafe(38),
        "MSH_FERNET_KEYS": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "LOG_LEVEL": "ERROR",
    }
    django.setup()
    from django.conf import settings  # noqa: PLC0415
    from django.core.management import call_command  # noqa: PLC0415

    from benchmarks import console_rows  # noqa: PLC0415

    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", verbosity=0)
    console_rows.add_partners(PARTNERS)


def _at(size: int, rounds: int) -> dict[str, Measured]:
    from benchmarks import console_pages, console_rows  # noqa: PLC0415

    console_rows.fill(size, tell)
    ask = _client()
    results = {}
    for name, address in console_pages.pages().items():
        one = results[name] = _measure(partial(ask, address), rounds)
        tell(f"{size} messages, {name}: {_shown(one)}")
    return results


def _client() -> Callable[["Address"], Any]:
    from django.contrib.auth.models import User  # noqa: PLC0415
    from django.test import Client  # noqa: PLC0415

    user, _ = User.objects.get_or_create(username="bench", is_staff=True, is_superuser=True)
    client = Client(headers={"Accept-Encoding": "gzip"})
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return lambda at: client.post(at.url, at.form) if at.form else client.get(at.url)


def _measure(ask: Callable[[], Any], rounds: int) -> Measured:
    from django.db import connection  # noqa: PLC0415
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415

    ask().close()  # fills Django's own caches
    with CaptureQueriesContext(connection) as captured:
        response = ask()
    queries = len(captured)  # the next request empties the log
    if response.status_code != 200:
        raise SystemExit(f"{response.request['PATH_INFO']} answered {response.status_code}")
    size = len(b"".join(response) if response.streaming else response.content)
    response.close()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (backend,) = cursor.fetchone()
    times = [_time(ask, backend) for _ in range(rounds)]
    least, cpu, database = (round(min(of_one), 1) for of_one in zip(*times, strict=True))
    return Measured(least, cpu, database, queries, size)


def _time(ask: Callable[[], Any], backend: int) -> tuple[float, float, float]:
    """Milliseconds until the first bytes, of an export those of its first rows: by the clock, of
    this process, of the database session."""
    before = (time.perf_counter(), time.process_time(), _cpu_of(backend))
    response = ask()
    if response.streaming:
        next(iter(response))
    after = (time.perf_counter(), time.process_time(), _cpu_of(backend))
    response.close()
    ours, cpu, theirs = (1000 * (end - begin) for begin, end in zip(before, after, strict=True))
    return ours, cpu, theirs


def _cpu_of(process: int) -> float:
    """Seconds."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


def _shown(one: Measured) -> str:
    cpu = f"{one.cpu_ms:.0f} + {one.database_cpu_ms:.0f}"
    return f"{one.least_ms:.0f} ms (CPU {cpu}), {one.queries} queries, {one.bytes / 1024:.0f} KB"


Results = Mapping[int, Mapping[str, Measured]]


def _by_page(results: Results) -> dict[str, dict[int, Measured]]:
    names = next(iter(results.values()))
    return {name: {size: pages[name] for size, pages in results.items()} for name in names}


def _write(results: Results) -> None:
    document = {
        "limit_ms": LIMIT,
        "partners": PARTNERS,
        "pages": {
            name: {str(size): asdict(one) for size, one in sizes.items()}
            for name, sizes in _by_page(results).items()
        },
    }
    (ROOT / "var" / "bench-console.json").write_text(json.dumps(document, indent=2) + "\n")


def _show(results: Results) -> None:
    table = Table("page", *(f"{size:,} messages" for size in results))
    for name, sizes in _by_page(results).items():
        table.add_row(name, *map(_shown, sizes.values()))
    Console().print(table)


def _holds(results: Results) -> bool:
    """Every page is fast enough at every size, and asks no more at the largest."""
    pages = _by_page(results).values()
    fast = all(one.least_ms < LIMIT for sizes in pages for one in sizes.values())
    return fast and all(len({one.queries for one in sizes.values()}) == 1 for sizes in pages)


if __name__ == "__main__":
    sys.exit(main())
