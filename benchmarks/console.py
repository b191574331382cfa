"""`make bench-console`: how long the console's pages take, and how many queries, with few messages
and with many. Written to var/bench-console.json; fails if a page is slow or asks more with more.
"""

import argparse
import base64
import json
import os
import secrets
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
from rich.console import Console
from rich.table import Table

from msh.standalone.embedded import EmbeddedServers

from .report import tell

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300.0  # milliseconds
PARTNERS = 1_000
ROUNDS = 15


@dataclass(frozen=True, slots=True)
class Measured:
    """One page at one size: the median of its rounds in milliseconds, and its queries."""

    median_ms: float
    queries: int


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
    from benchmarks import console_rows  # noqa: PLC0415

    console_rows.fill(size, tell)
    get = _client()
    results = {}
    for name, url in console_rows.pages().items():
        results[name] = _measure(get, url, rounds)
        tell(f"{size} messages, {name}: {results[name].median_ms} ms")
    return results


def _client() -> Callable[[str], Any]:
    from django.contrib.auth.models import User  # noqa: PLC0415
    from django.test import Client  # noqa: PLC0415

    user, _ = User.objects.get_or_create(username="bench", is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client.get


def _measure(get: Callable[[str], Any], url: str, rounds: int) -> Measured:
    from django.db import connection  # noqa: PLC0415
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415

    get(url)  # fills Django's own caches
    with CaptureQueriesContext(connection) as captured:
        response = get(url)
    queries = len(captured)
    if response.status_code != 200:
        raise SystemExit(f"{url} answered {response.status_code}")
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        get(url)
        times.append((time.perf_counter() - begun) * 1000)
    return Measured(round(statistics.median(times), 1), queries)


Results = Mapping[int, Mapping[str, Measured]]


def _by_page(results: Results) -> dict[str, dict[int, Measured]]:
    names = next(iter(results.values()))
    return {name: {size: pages[name] for size, pages in results.items()} for name in names}


def _write(results: Results) -> None:
    document = {
        "limit_ms": LIMIT,
        "partners": PARTNERS,
        "pages": {
            name: {
                str(size): {"median_ms": one.median_ms, "queries": one.queries}
                for size, one in sizes.items()
            }
            for name, sizes in _by_page(results).items()
        },
    }
    (ROOT / "var" / "bench-console.json").write_text(json.dumps(document, indent=2) + "\n")


def _show(results: Results) -> None:
    table = Table("page", *(f"{size:,} messages" for size in results))
    for name, sizes in _by_page(results).items():
        table.add_row(name, *(f"{m.median_ms} ms, {m.queries} queries" for m in sizes.values()))
    Console().print(table)


def _holds(results: Results) -> bool:
    """Every page is fast enough at every size, and asks no more at the largest."""
    pages = _by_page(results).values()
    fast = all(one.median_ms < LIMIT for sizes in pages for one in sizes.values())
    return fast and all(len({one.queries for one in sizes.values()}) == 1 for sizes in pages)


if __name__ == "__main__":
    sys.exit(main())
