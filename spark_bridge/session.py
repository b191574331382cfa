"""A Spark session for the jobs: the one that there is, one of Spark Connect, or a new one, with a
Java that is new enough and this Python for the tasks."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import msh_client
import spark_bridge
from spark_bridge.source import EbxmlDataSource

OLDEST_JAVA = 17
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
USUAL_BATCH_BYTES = 4 * 1024 * 1024
"""Unless it is configured: what a task has in its memory at once, however large the documents are,
a request's worth."""
CURE = (
    f"install it (Debian, Ubuntu: apt install openjdk-{OLDEST_JAVA}-jre-headless),"
    " or name another one by JAVA_HOME"
)


class JavaMissing(Exception):
    """Spark cannot run here: one line that says why, and the cure."""


def open_session(name: str) -> SparkSession:
    """The session of this process, with format `ebxml` registered. Raises JavaMissing.

    Under spark-submit it has what was submitted, with SPARK_REMOTE it is that of a server of Spark
    Connect; else it is local, as SPARK_MASTER says (`local[*,4]`: a task may fail three times).
    """
    session = SparkSession.getActiveSession() or _new_session(name)
    register(session)
    return session


def register(session: SparkSession) -> None:
    """Make format `ebxml` known, unless Spark has found it by itself: it takes none twice."""
    try:
        session.dataSource.register(EbxmlDataSource)
    except AnalysisException as error:
        if "ALREADY_EXISTS" not in str(error):
            raise


def _new_session(name: str) -> SparkSession:
    builder = SparkSession.builder.appName(name)
    # Spark would take python3 from the PATH, which need not have pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "SPARK_REMOTE" in os.environ:
        # Its server need not have the bridge.
        for package in (spark_bridge, msh_client):
            cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]
    else:
        require_java()
        if not _is_submitted():
            builder = builder.master(os.environ.get("SPARK_MASTER", "local[*,4]"))
    session = builder.getOrCreate()
    configured = session.conf.get(BATCH_BYTES, str(USUAL_BATCH_BYTES))
    session.conf.set(BATCH_BYTES, configured or USUAL_BATCH_BYTES)
    return session


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
