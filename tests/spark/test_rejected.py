"""Files of refused rows: seen when the job is done, and nothing else is left of it."""

from pathlib import Path

from spark_bridge.message import Line
from spark_bridge.rejected import RejectedRows, publish, sweep


def rejected(folder: Path, run: str, *ids: str) -> RejectedRows:
    with RejectedRows(str(folder), run) as rows:
        for one in ids:
            rows.add(Line({"id": one}, one), "the test says so")
    return rows


def test_nothing_is_seen_before_the_end(tmp_path: Path) -> None:
    rows = rejected(tmp_path, "run", "a")
    assert [file.name[0] for file in tmp_path.iterdir()] == ["."]  # Spark reads no such file
    publish(str(tmp_path), rows.file, "a.json")
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_files_of_a_killed_attempt_are_removed(tmp_path: Path) -> None:
    rejected(tmp_path, "run", "a")
    publish(str(tmp_path), rejected(tmp_path, "run", "a").file, "a.json")
    others = rejected(tmp_path, "other", "a").file
    sweep(str(tmp_path), "run")
    assert {file.name for file in tmp_path.iterdir()} == {"a.json", others}
    sweep(str(tmp_path / "nothing was refused"), "run")


def test_digest_is_that_of_the_rows(tmp_path: Path) -> None:
    first = rejected(tmp_path, "run", "a", "b", "b").digest
    assert rejected(tmp_path, "again", "b", "a", "b").digest == first
    for others in (("a", "b"), ("a",), ("a", "b", "c"), ("a", "a", "b", "b", "b")):
        assert rejected(tmp_path, "run", *others).digest != first
