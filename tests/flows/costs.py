"""What a statement costs, by pages and rows rather than by time; and tables that are full."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from msh.models import InboundLink, OutboundLink
from msh.store.engine import USE_INDEX_ORDER, Call
from partners.models import Partner
from tests.sql import Calls, Execute, analyze, wrap_execute


def multiply(row: Any, count: int, **values: str) -> None:
    """Insert `count` copies of a row; `values` are expressions of PostgreSQL, `n` their number."""
    table, names = row._meta.db_table, [field.column for field in row._meta.fields[1:]]
    columns = [values.get(name, f'source."{name}"') for name in names]
    quoted = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(map(quoted, names))}) SELECT {', '.join(columns)}"
            f" FROM {table} source, generate_series(1, {count}) n WHERE source.id = {row.pk}"
            " ORDER BY n"
        )
        analyze(table)


def statements_of(act: Callable[[], object]) -> list[Call[Any]]:
    """What `act` runs in the store."""
    seen: list[Call[Any]] = []

    def watch(execute: Execute, calls: Calls) -> Any:
        seen.extend(calls)
        return execute(calls)

    with pytest.MonkeyPatch.context() as patch, transaction.atomic():
        wrap_execute(patch, watch)
        act()
    return seen


def cost_of(call: Call[Any], *, by_index: bool = True) -> int:
    """As `cost`, of a statement of the store."""
    return cost(call.statement.sql, call.values, by_index=by_index)


def cost(statement: str, parameters: Any, *, by_index: bool = True) -> int:
    """Pages that a statement reads, and rows that its steps make or read in vain."""
    with transaction.atomic(), connection.cursor() as cursor:
        if by_index:
            cursor.execute(USE_INDEX_ORDER.sql)
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters)
        (found,) = cursor.fetchone()
        transaction.set_rollback(True)
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return _pages(plan) + _rows(plan)


def _pages(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _rows(plan: dict[str, Any]) -> int:
    """Rows of every step, also those that it reads in vain."""
    in_vain = sum(value for name, value in plan.items() if name.startswith("Rows Removed"))
    own = (plan["Actual Rows"] + in_vain) * plan["Actual Loops"]
    return int(own) + sum(map(_rows, plan.get("Plans", [])))


def add_idle_partners(count: int) -> None:
    """Half of them have nothing to send, half were asked to wait."""
    made = Partner.objects.bulk_create(
        Partner(name=f"idle-{n}", uri=f"http://idle-{n}.example/", uri_normalised=f"idle-{n}")
        for n in range(count)
    )
    asked_to_wait = {"state": "transient", "due": timezone.now() + timedelta(minutes=30)}
    OutboundLink.objects.bulk_create(
        OutboundLink(partner=partner, **(asked_to_wait if n % 2 else {}))
        for n, partner in enumerate(made)
    )
    InboundLink.objects.bulk_create(InboundLink(partner=partner) for partner in made)
    analyze("partners_partner", "msh_outboundlink", "msh_inboundlink")
