"""What the receiving application was given, by its own table, against what was to be sent.

It knows nothing of Spark's jobs: it reads their files only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pyarrow.dataset as ds

# An id is the number of its order with leading zeros, so the order of ids is that of orders.
_JUDGE = """
WITH first AS (
    SELECT pair, message_id COLLATE "C" AS message_id, min(serial) AS serial, count(*) AS copies
    FROM demo_received GROUP BY pair, message_id
), judged AS (
    SELECT pair, message_id, copies, message_id < max(message_id) OVER (
        PARTITION BY pair ORDER BY serial ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS late FROM first
)
SELECT count(*) FILTER (WHERE copies > 0 AND expected.sha256 IS NOT NULL),
       count(*) FILTER (WHERE copies IS NULL),
       count(*) FILTER (WHERE expected.sha256 IS NULL),
       coalesce(sum(copies - 1), 0)::int,
       count(*) FILTER (WHERE late),
       (SELECT count(*) FROM demo_received JOIN expected USING (pair, message_id)
        WHERE demo_received.sha256 <> expected.sha256),
       {read}
FROM judged FULL JOIN expected USING (pair, message_id)
"""
_READ = """
    (SELECT count(*) FROM (
        SELECT FROM read_{name} JOIN expected USING (pair, message_id)
        GROUP BY pair, message_id
        HAVING count(*) = 1 AND min(read_{name}.sha256) = min(expected.sha256)) AS exact)
"""


class Witness(NamedTuple):
    """Messages, judged by the ids and the bytes of the orders."""

    delivered: int
    lost: int
    unexpected: int
    """Delivered, and no order: or one of another partner."""
    duplicated: int
    out_of_order: int
    altered: int
    extracted: int
    """Orders that the extract has once, with the bytes that they had; and so on."""
    extracted_over_connect: int
    streamed_meanwhile: int
    streamed_at_once: int

    @classmethod
    def of_all(cls, rows: int) -> "Witness":
        """Of a run where nothing is wrong."""
        read = dict.fromkeys(READ, rows)
        return cls(rows, lost=0, unexpected=0, duplicated=0, out_of_order=0, altered=0, **read)


READ = Witness._fields[6:]
"""What was read back from the receiver."""


class _Order(NamedTuple):
    pair: str
    message_id: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Files:
    """Parquet: the orders that were loaded, and what was read on the other side, by its name in
    `Witness`."""

    orders: Path
    read: dict[str, Path]

    def expected(self) -> Iterator[_Order]:
        for row in _rows(self.orders, ["tpa_id", "order_id", "document"]):
            yield _Order(_pair(row["tpa_id"]), row["order_id"], _hash(row["document"]))

    def read_back(self, name: str) -> Iterator[_Order]:
        for row in _rows(self.read[name], ["tpa_id", "message_id", "payloads"]):
            for payload in row["payloads"]:
                content = _hash(payload["content"])
                yield _Order(_pair(row["tpa_id"]), row["message_id"], content)


def ask(database_url: str, files: Files) -> Witness:
    with psycopg.connect(database_url) as connection:
        _keep(connection, "expected", files.expected())
        for name in READ:
            _keep(connection, f"read_{name}", files.read_back(name))
        read = ",".join(_READ.format(name=name) for name in READ)
        row = connection.execute(_JUDGE.format(read=read).encode()).fetchone()
        connection.rollback()
    assert row is not None
    return Witness(*row)


def _keep(connection: psycopg.Connection, table: str, orders: Iterator[_Order]) -> None:
    connection.execute(
        f"CREATE TEMP TABLE {table} (pair text, message_id text, sha256 text) ON COMMIT DROP"
    )
    with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for order in orders:
            copy.write_row(order)


def _rows(folder: Path, columns: list[str]) -> Iterator[dict[str, Any]]:
    for batch in ds.dataset(folder, format="parquet").to_batches(columns=columns, batch_size=500):
        yield from batch.to_pylist()


def _pair(tpa_id: str) -> str:
    return tpa_id.removeprefix("tpa-")


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()
