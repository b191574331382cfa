"""What is written as one statement leaves in the tables what the single statements leave."""

import json
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from msh.flows.receiving import receive
from msh.models import OutboundLink
from msh.store.engine import Call
from msh.store.sending import fast_path
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

TABLES = (
    *("msh_outboundlink", "msh_outboundmessage", "msh_attempt", "msh_partyevent"),
    *("msh_inboundlink", "msh_inboundmessage", "msh_inboundpayload", "msh_signal", "msh_history"),
)
OF_ONE_RUN = {
    *("head", "body_sha256", "wire", "header", "content_digest", "body", "boundary"),
    "content_type",  # of a signal, with its boundary
}


def rows_of_an_exchange() -> dict[str, list[Any]]:
    """What is stored after messages were sent, repeated and acknowledged: without keys, ids, times
    and bytes, which differ in every run. Nothing of it stays."""
    with transaction.atomic():
        world = make_world()
        for _ in range(3):
            world.submit()
        (job,) = world.poll()
        world.hand_over(job)
        world.hand_over(job)
        world.end(job)
        world.settle()
        world.submit()
        world.poll()
        OutboundLink.objects.update(due=timezone.now())
        world.poll()  # a retry
        found = {table: _rows(table) for table in TABLES}
        transaction.set_rollback(True)
    return found


def _rows(table: str) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT to_jsonb(stored)::text FROM {table} stored ORDER BY id")
        return [_comparable(json.loads(row)) for (row,) in cursor.fetchall()]


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: "a time" if isinstance(value, str) and value[10:11] == "T" else value
        for name, value in row.items()
        if name != "id" and not name.endswith("_id") and name not in OF_ONE_RUN
    }


def test_both_ways_leave_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[object] = []
    merge, if_unchanged = fast_path.merge, fast_path.if_unchanged

    def merging(calls: Any) -> Any:
        merged = merge(calls)
        used.extend(call.statement for call in merged)
        return merged

    def guarded(calls: Any, *proof: Any) -> Call[Any] | None:
        call = if_unchanged(calls, *proof)
        used.append(call and call.statement)
        return call

    monkeypatch.setattr(fast_path, "merge", merging)
    monkeypatch.setattr(fast_path, "if_unchanged", guarded)
    fast = rows_of_an_exchange()
    assert {
        fast_path.CLAIM_ATTEMPT,
        fast_path.END_ATTEMPT,
        fast_path.ACKNOWLEDGE_IF_UNCHANGED,
        fast_path.ACKNOWLEDGE_AND_START_NEXT_IF_UNCHANGED,
    } <= set(used)

    monkeypatch.setattr(fast_path, "merge", lambda calls: calls)
    monkeypatch.setattr(fast_path, "if_unchanged", lambda calls, *proof: None)
    monkeypatch.setattr(receive, "accept_at_once", lambda partner, message: None)
    slow = rows_of_an_exchange()

    for table in TABLES:
        assert sorted(map(repr, fast[table])) == sorted(map(repr, slow[table])), table
    assert all(fast.values()), "every table has rows"
