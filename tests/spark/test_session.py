"""Without a Java that Spark runs on, one line names what is missing and the cure."""

from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from spark_bridge.session import (
    BATCH_BYTES,
    USUAL_BATCH_BYTES,
    JavaMissing,
    open_session,
    require_java,
)

CURE = "install it (Debian, Ubuntu: apt install openjdk-17-jre-headless), or name another one"


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing) as missing:
        require_java()
    assert (
        str(missing.value) == f"Java 17 or newer is missing, Spark needs it: {CURE} by JAVA_HOME."
    )


@pytest.mark.parametrize(
    ("version", "found"), [("1.8.0_392", "Java 8"), ("11.0.21", "Java 11"), ("", "no Java")]
)
def test_java_that_is_too_old(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, found: str
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing) as missing:
        require_java()
    assert str(missing.value).startswith(f"{program} is {found}, Spark needs 17 or newer: {CURE}")


def test_java_that_is_new_enough() -> None:
    require_java()


def test_settings_of_another_program_stay(spark: SparkSession) -> None:
    """Of a session that is there, nothing is changed; of a new one, only what nobody configured."""
    assert spark.conf.get(BATCH_BYTES) == str(USUAL_BATCH_BYTES)
    spark.conf.set(BATCH_BYTES, "1234567")
    try:
        assert open_session("another") is spark
        assert spark.conf.get(BATCH_BYTES) == "1234567"
    finally:
        spark.conf.set(BATCH_BYTES, str(USUAL_BATCH_BYTES))


def test_neither_driver_nor_workers_of_these_tests_have_pandas(spark: SparkSession) -> None:
    """A call of Spark that needs it fails here, as where the wheel alone is installed."""

    def is_missing(_: int) -> bool:
        try:
            import_module("pandas")
        except ModuleNotFoundError:
            return True
        return False

    found = spark.range(1).select(f.udf(is_missing, "boolean", useArrow=False)("id")).collect()
    assert [missing for (missing,) in found] == [True]
    assert is_missing(0)
