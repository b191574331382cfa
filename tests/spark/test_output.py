"""The folder of extract and archive: which runs count, whatever becomes of the others."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_bridge import output, read_runs
from spark_bridge.failures import JobFailed
from spark_bridge.output import Entry, Output, finished


def test_chain_of_runs() -> None:
    """Each goes on from the one before; of two that do, the first that was written counts."""
    began = Entry("killed", "began", written_at=1)
    first = Entry("first", "finished", written_at=2)
    second = Entry("b", "finished", "first", written_at=3)
    late = Entry("a", "finished", "first", written_at=4)
    third = Entry("third", "finished", "b", written_at=5)
    lost = Entry("lost", "finished", "a", written_at=6)
    assert finished([lost, third, late, second, first, began]) == [first, second, third]
    assert finished([]) == []
    removed = Entry("third", "removed", written_at=9)
    assert finished([first, second, third, removed]) == [first, second]


def rows(spark: SparkSession, number: int) -> DataFrame:
    return spark.range(number, number + 1)


def ids(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(row["id"] for row in read_runs(spark, str(folder)).collect())


def filled(folder: Path) -> set[Path]:
    """The folders of runs that have rows, whether they count or not."""
    return {file.parent for file in folder.glob("run=*/*.parquet")}


def test_run_that_is_killed_never_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are all there, its last line is not. A day later they go, what it had begun too."""
    with pytest.raises(JobFailed, match="no run has finished there"):
        read_runs(spark, str(tmp_path))
    killed = Output(spark, str(tmp_path))
    killed.begin()
    rows(spark, 1).write.parquet(killed.folder)
    (Path(killed.folder) / "_temporary" / "0").mkdir(parents=True)
    run = Output(spark, str(tmp_path))
    assert run.found == {}
    run.begin()
    assert len(filled(tmp_path)) == 1, "it may be at work"
    rows(spark, 2).write.parquet(run.folder)
    run.finish(1, {"position": 2})
    assert ids(spark, tmp_path) == [2]
    monkeypatch.setattr(output, "ABANDONED_AFTER", -60.0)
    after = Output(spark, str(tmp_path))
    assert after.found == {"position": 2}
    after.begin()
    assert len(filled(tmp_path)) == 1
    assert not list(tmp_path.glob("run=*/_temporary"))
    with pytest.raises(JobFailed, match="another run has finished meanwhile"):
        killed.finish(1, {"position": 1})
    assert ids(spark, tmp_path) == [2]


def test_two_runs_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Each in a folder of its own; the second to finish would repeat the rows of the first."""
    one, other = Output(spark, str(tmp_path)), Output(spark, str(tmp_path))
    for run in (one, other):
        run.begin()
        rows(spark, 7).write.parquet(run.folder)
    other.finish(1, {"position": 7})
    with pytest.raises(JobFailed, match="another run has finished meanwhile"):
        one.finish(1, {"position": 7})
    assert ids(spark, tmp_path) == [7]
    assert len(filled(tmp_path)) == 1
    nothing = Output(spark, str(tmp_path))
    nothing.begin()
    nothing.drop()
    assert Output(spark, str(tmp_path)).found == {"position": 7}
