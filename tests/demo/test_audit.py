"""The audit's witness and its judgements: they must see each thing that can go wrong."""

from argparse import ArgumentParser
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.audit.options import Options, add_arguments, options_of
from demo.audit.verdict import judge
from demo.audit.witness import READ, Files, Witness, ask

ORDERS = range(1, 7)
CLEAN = Witness.of_all(6)
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
        self.read = {name: list(self.delivered) for name in READ}

    def judged(self) -> Witness:
        source = [
            {
                "tpa_id": f"tpa-{pair_of(n)}",
                "order_id": f"order-{n:09d}",
                "document": document_of(n),
            }
            for n in ORDERS
        ]
        read = {
            way: [
                {"tpa_id": f"tpa-{pair}", "message_id": name, "payloads": [{"content": content}]}
                for pair, name, content in rows
            ]
            for way, rows in self.read.items()
        }
        received = [
            (pair, name, sha256(content).hexdigest()) for pair, name, content in self.delivered
        ]
        with psycopg.connect(self.database) as connection, connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO demo_received (pair, message_id, sha256) VALUES (%s, %s, %s)", received
            )
        folders = {name: self._write(name, rows) for name, rows in read.items()}
        return ask(self.database, Files(self._write("orders", source), folders))

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


@pytest.mark.parametrize("way", READ)
def test_read_with_another_document(run: Run, way: str) -> None:
    run.read[way][3] = (*run.read[way][3][:2], document_of(5))

    assert run.judged() == CLEAN._replace(**{way: 5})


@pytest.mark.parametrize("way", READ)
def test_read_twice(run: Run, way: str) -> None:
    """And another one not at all: their number is right."""
    run.read[way][3] = run.read[way][1]

    assert run.judged() == CLEAN._replace(**{way: 4})


def options(*words: str) -> Options:
    parser = ArgumentParser()
    add_arguments(parser)
    return options_of(vars(parser.parse_args(words)))


def test_waves_hold_each_order_once() -> None:
    chosen = options("--rows", "303", "--partners", "20")
    numbers = [number for wave in chosen.waves.values() for number in wave]
    assert numbers == list(range(1, 304))
    assert chosen.refused in chosen.waves["ordered"]
    assert chosen.behind_refused >= 1


def test_fewer_rows_than_the_waves_need() -> None:
    with pytest.raises(ValueError, match="15 rows for each of its partners"):
        options("--rows", "149", "--partners", "10")


SMALL = options("--rows", "150", "--partners", "10")
COUNTS = {"accepted": 0, "known": 0, "rejected": 0, "not_sent": 0}
NOT_FAILED = {"sink": "", "micro_batches": "", "feed": ""}
FOUND: dict[str, Any] = {
    "witness": Witness.of_all(150),
    "tasks_killed_when_so_many_were_in": [20, 40, 60],
    "second_load": COUNTS | {"known": 90},
    "extract": {"messages": 150},
    "extract_over_connect": {"messages": 150},
    "reconcile": {"good": True, "received": 150},
    "refused_row": {
        "refused": COUNTS | {"accepted": 28, "rejected": 1, "not_sent": 1},
        "stored": 28,
        "corrected": COUNTS | {"accepted": 2, "known": 28},
    },
    "streams": {
        "driver_killed_when_so_many_were_in": [15],
        "failed": NOT_FAILED,
        "sink": {"accepted": 20, "known": 10, "rejected": 0},
        "micro_batches": {"accepted": 8, "known": 22, "rejected": 0},
    },
    "read_all": {
        "failed": {"feed": "", "fresh": ""},
        "micro_batches": {"feed": [22, 5, 22, 22, 22, 22, 22, 13], "fresh": [22] * 6 + [18]},
    },
    "retention": {
        "unread": 60,
        "left": 30,
        "failed": "DataLost: removed",
        "read_before_it_failed": 0,
        "failed_without_failOnDataLoss": "",
        "read": 30,
    },
}


def test_good_run() -> None:
    assert all(judge(SMALL, FOUND).values())


@pytest.mark.parametrize(
    ("judgement", "path", "value"),
    [
        ("each_order_once_in_order", "witness", CLEAN),
        ("tasks_killed", "tasks_killed_when_so_many_were_in", [20, 40]),
        ("load_again_sends_nothing", "second_load accepted", 1),
        ("load_again_sends_nothing", "second_load known", 89),
        ("extracted_and_reconciled", "extract messages", 149),
        ("extracted_and_reconciled", "reconcile received", 149),
        ("extracted_and_reconciled", "reconcile good", False),
        ("nothing_sent_behind_a_refused_row", "refused_row refused not_sent", 0),
        ("nothing_sent_behind_a_refused_row", "refused_row stored", 29),
        ("corrected_row_and_those_behind_it_sent", "refused_row corrected accepted", 1),
        ("corrected_row_and_those_behind_it_sent", "refused_row corrected rejected", 1),
        ("driver_killed", "streams driver_killed_when_so_many_were_in", []),
        ("two_streams_send_each_row", "streams failed sink", "RowsRefused"),
        ("two_streams_send_each_row", "streams sink known", 9),
        ("two_streams_send_each_row", "streams micro_batches known", 23),
        ("available_now_ends", "read_all failed fresh", "ApiUnavailable"),
        ("available_now_ends", "read_all micro_batches feed", [22, 22]),
        ("micro_batches_within_their_limit", "read_all micro_batches feed", [23, 127]),
        ("micro_batches_within_their_limit", "read_all micro_batches fresh", [150]),
        ("retention_before_a_reader_is_an_error", "retention failed", ""),
        ("retention_before_a_reader_is_an_error", "retention left", 60),
        ("retention_before_a_reader_is_an_error", "retention read_before_it_failed", 30),
        ("reader_goes_on_if_told", "retention failed_without_failOnDataLoss", "DataLost"),
        ("reader_goes_on_if_told", "retention read", 29),
        ("connect_extracts_the_same", "extract_over_connect messages", 0),
    ],
)
def test_run_with_a_violation(judgement: str, path: str, value: object) -> None:
    found = deepcopy(FOUND)
    *parents, last = path.split()
    place = found
    for name in parents:
        place = place[name]
    place[last] = value
    assert judge(SMALL, found)[judgement] is False
