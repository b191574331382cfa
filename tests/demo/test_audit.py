"""The audit's witness: it must see each thing that can go wrong."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.audit.witness import Files, Witness, ask

ORDERS = range(1, 7)
CLEAN = Witness(6, lost=0, unexpected=0, duplicated=0, out_of_order=0, altered=0, extracted=6)
Row = dict[str, Any]


def pair_of(number: int) -> str:
    return f"pair-{number % 2 + 1}"


def document_of(number: int) -> bytes:
    return f"<Order>{number}</Order>".encode()


class Run:
    """Six orders for two partners, as they were loaded, delivered and extracted."""

    def __init__(self, database: str, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self.delivered = [(pair_of(n), f"order-{n:09d}", document_of(n)) for n in ORDERS]
        self.extracted = list(self.delivered)

    def judged(self) -> Witness:
        source = [
            {
                "tpa_id": f"tpa-{pair_of(n)}",
                "order_id": f"order-{n:09d}",
                "document": document_of(n),
            }
            for n in ORDERS
        ]
        extract = [
            {"tpa_id": f"tpa-{pair}", "message_id": name, "payloads": [{"content": content}]}
            for pair, name, content in self.extracted
        ]
        received = [
            (pair, name, sha256(content).hexdigest()) for pair, name, content in self.delivered
        ]
        with psycopg.connect(self.database) as connection, connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO demo_received (pair, message_id, sha256) VALUES (%s, %s, %s)", received
            )
        files = Files(self._write("orders", source), self._write("extracted", extract))
        return ask(self.database, files)

    def _write(self, name: str, rows: list[Row]) -> Path:
        folder = self.folder / name
        folder.mkdir()
        pq.write_table(pa.Table.from_pylist(rows), folder / "part-0.parquet")
        return folder


@pytest.fixture
def run(database: str, tmp_path: Path) -> Run:
    return Run(database, tmp_path)


def test_all_there_once_and_in_order(run: Run) -> None:
    assert run.judged() == CLEAN


def test_one_that_was_lost_is_not_made_up_for_by_a_stranger(run: Run) -> None:
    run.delivered[5] = ("pair-1", "order-000000099", b"?")

    assert run.judged() == CLEAN._replace(delivered=5, lost=1, unexpected=1)


def test_order_at_another_partner(run: Run) -> None:
    run.delivered[5] = ("pair-2", *run.delivered[5][1:])

    assert run.judged() == CLEAN._replace(delivered=5, lost=1, unexpected=1)


def test_delivered_twice(run: Run) -> None:
    run.delivered.append(run.delivered[0])

    assert run.judged() == CLEAN._replace(duplicated=1)


def test_two_of_one_partner_swapped(run: Run) -> None:
    run.delivered[0], run.delivered[2] = run.delivered[2], run.delivered[0]

    assert run.judged() == CLEAN._replace(out_of_order=1)


def test_another_document_under_the_same_id(run: Run) -> None:
    run.delivered[3] = (*run.delivered[3][:2], document_of(5))

    assert run.judged() == CLEAN._replace(altered=1)


def test_extract_with_another_document(run: Run) -> None:
    run.extracted[3] = (*run.extracted[3][:2], document_of(5))

    assert run.judged() == CLEAN._replace(extracted=5)
