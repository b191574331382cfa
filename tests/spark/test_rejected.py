"""Files of refused rows: seen when the job is done, and nothing else is left of it."""

import json
import os
import time
from pathlib import Path

from spark_bridge.message import Line
from spark_bridge.rejected import ABANDONED_AFTER, RejectedRows, micro_batches, publish, sweep


def rejected(folder: Path, run: str, *ids: str) -> RejectedRows:
    with RejectedRows(str(folder), run) as rows:
        for one in ids:
            rows.add(Line({"id": one}, one), "the test says so", "invalid")
    return rows


def test_nothing_is_seen_before_the_end(tmp_path: Path) -> None:
    """Then it is one file, however many tasks there were, and another run may replace it."""
    parts = [rejected(tmp_path, "run", one).file for one in ("a", "b")]
    assert {file.name[0] for file in tmp_path.iterdir()} == {"."}  # Spark reads no such file
    publish(str(tmp_path), "run", parts, "all.json")
    sweep(str(tmp_path), ["run"])
    (published,) = tmp_path.iterdir()
    rows = [json.loads(line) for line in published.read_text().splitlines()]
    assert [row["message_id"] for row in rows] == ["a", "b"]
    assert {row["code"] for row in rows} == {"invalid"}
    publish(str(tmp_path), "again", [rejected(tmp_path, "again", "c").file], "all.json")
    assert len(published.read_text().splitlines()) == 1


def test_files_of_a_killed_attempt_are_removed(tmp_path: Path) -> None:
    rejected(tmp_path, "run", "a")
    publish(str(tmp_path), "run", [rejected(tmp_path, "run", "a").file], "a.json")
    others = rejected(tmp_path, "other", "a").file
    sweep(str(tmp_path), ["run"])
    assert {file.name for file in tmp_path.iterdir()} == {"a.json", others}
    sweep(str(tmp_path / "nothing was refused"), ["run"])


def test_files_of_a_driver_that_was_killed_go_with_a_later_run(tmp_path: Path) -> None:
    dead, alive = (rejected(tmp_path, run, "a").file for run in ("dead", "alive"))
    published = tmp_path / "a.json"
    published.write_text("{}")
    long_ago = time.time() - ABANDONED_AFTER.total_seconds() - 60
    for name in (dead, "a.json"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    sweep(str(tmp_path), ["run"])
    assert {file.name for file in tmp_path.iterdir()} == {"a.json", alive}


def test_micro_batches_of_a_query(tmp_path: Path) -> None:
    """Those that have ended: not the next one's, not another query's."""
    for run in ("q-1", "q-2", "q-10", "q-3", "qq-1", "q-x"):
        rejected(tmp_path, run, "a")
    assert sorted(micro_batches(str(tmp_path), "q", 3)) == ["q-1", "q-2", "q-3"]


def test_digest_is_that_of_the_rows(tmp_path: Path) -> None:
    """However they are spread over the tasks."""
    first = rejected(tmp_path, "run", "a", "b", "b").digest
    assert rejected(tmp_path, "again", "b", "a", "b").digest == first
    apart = sum(rejected(tmp_path, "run", *some).digest for some in ("ab", "b", ""))
    assert apart % 2**128 == first
    for others in (("a", "b"), ("a",), ("a", "b", "c"), ("a", "a", "b", "b", "b")):
        assert rejected(tmp_path, "run", *others).digest != first
