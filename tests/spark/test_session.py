"""Without a Java that Spark runs on, one line names what is missing and the cure."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_bridge.session import JavaMissing, gateway, is_configured, require_java

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


def test_setting_of_spark_submit(spark: SparkSession) -> None:
    """It hands them over as properties of the JVM."""
    system = gateway().jvm.java.lang.System
    assert not is_configured("spark.of.this.test")
    try:
        system.setProperty("spark.of.this.test", "false")
        assert is_configured("spark.of.this.test")
    finally:
        system.clearProperty("spark.of.this.test")
