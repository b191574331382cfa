"""A Spark session for the jobs: with Java that is new enough, and this Python for the tasks."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_bridge.source import EbxmlDataSource

OLDEST_JAVA = 17
USUAL = {
    "spark.ui.showConsoleProgress": "true",  # spark-submit shows it of itself in its shells only
    # What a task has in its memory at once, however large the documents are: a request's worth.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 * 1024 * 1024),
}
"""Of the jobs, unless it is configured otherwise."""
CURE = (
    f"install it (Debian, Ubuntu: apt install openjdk-{OLDEST_JAVA}-jre-headless),"
    " or name another one by JAVA_HOME"
)


class JavaMissing(Exception):
    """Spark cannot run here: one line that says why, and the cure."""


def open_session(name: str) -> SparkSession:
    """The session of this process, with format `ebxml` registered. Raises JavaMissing.

    Under spark-submit it has what was submitted; else it is local, as SPARK_MASTER says
    (`local[*,4]`: a task may fail three times).
    """
    require_java()
    # Spark would take python3 from the PATH, which need not have pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkSession.getActiveSession() is None:
        SparkContext(conf=_configuration(name), gateway=gateway())
    session = SparkSession.builder.getOrCreate()
    register(session)
    return session


def register(session: SparkSession) -> None:
    """Make format `ebxml` known, unless Spark has found it by itself: it takes none twice."""
    try:
        session.dataSource.register(EbxmlDataSource)
    except AnalysisException as error:
        if "ALREADY_EXISTS" not in str(error):
            raise


@cache
def gateway() -> Any:
    """Return py4j's gateway to the JVM of this process: that of spark-submit, or a new one. Spark
    uses it too, because `open_session` hands it over."""
    return launch_gateway()  # type: ignore[no-untyped-call]


def _configuration(name: str) -> SparkConf:
    given = {setting: value for setting, value in USUAL.items() if not is_configured(setting)}
    if not _is_submitted():
        given["spark.master"] = os.environ.get("SPARK_MASTER", "local[*,4]")
    return SparkConf().setAppName(name).setAll(list(given.items()))


def is_configured(name: str) -> bool:
    """Whether spark-submit or a file of its configuration sets it. PySpark's own SparkConf is empty
    before there is a context."""
    return bool(gateway().jvm.org.apache.spark.SparkConf().contains(name))


def require_java() -> None:
    """Raises JavaMissing unless there is a Java that Spark runs on."""
    program = _java()
    if program is None:
        raise JavaMissing(f"Java {OLDEST_JAVA} or newer is missing, Spark needs it: {CURE}.")
    process = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', process.stderr)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = f"Java {version[1]}" if version else "no Java"
        raise JavaMissing(f"{program} is {found}, Spark needs {OLDEST_JAVA} or newer: {CURE}.")


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home) / "bin" / "java") if home else "java")


def _is_submitted() -> bool:
    """spark-submit starts Python with a gateway to the Java that it has started."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
