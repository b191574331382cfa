"""One Spark session and one real MSH for the folder; partners of its own for each test.

tests/scheduling.py keeps the folder on one worker of pytest-xdist: only one starts a JVM.
"""

import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from django.conf import settings
from pyspark.sql import SparkSession
from pytest_django import DjangoDbBlocker

from demo.audit.jobs import QUICK_JAVA
from spark_bridge.session import JavaMissing, open_session
from tests.exchange.machine import Machine
from tests.spark.cluster import submit_arguments
from tests.spark.office import Office
from tests.spark.wheels import build


@pytest.fixture(scope="package", autouse=True)
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home of Spark in which its Python workers, hundreds of them, find pyspark where it is
    installed: each would compile that of the home's zip files anew, for a second."""
    home: Path = tmp_path_factory.mktemp("home")
    installed = Path(pyspark.__file__).parent
    for entry in installed.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    (home / "python" / "lib").mkdir(parents=True)
    (home / "python" / "pyspark").symlink_to(installed / "python" / "pyspark")
    for packed in (installed / "python" / "lib").glob("*.zip"):
        zipfile.ZipFile(home / "python" / "lib" / packed.name, "w").close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(home))
        yield


@pytest.fixture(scope="package", autouse=True)
def java_options() -> Iterator[None]:
    """Of every Java that these tests start, those of clusters and jobs too."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK_JAVA.items():
            patch.setenv(name, value, prepend=" ")
        yield


@pytest.fixture(scope="package", autouse=True)
def without_pandas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """It is here for Spark Connect only: neither a driver nor a worker of ours needs it."""
    folder: Path = tmp_path_factory.mktemp("without")
    (folder / "pandas.py").write_text("raise ModuleNotFoundError('pandas', name='pandas')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "pandas", raising=False)
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield


@pytest.fixture(scope="package")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes what it does, plans included."""
    folder: Path = tmp_path_factory.mktemp("events")
    return folder


@pytest.fixture(scope="package")
def spark(event_log: Path) -> Iterator[SparkSession]:
    """Two tasks at a time, each tried four times."""
    os.environ["SPARK_MASTER"] = "local[2,4]"
    os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments(
        {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
            # A dozen rows are sooner read than a class for them is written and compiled.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.dir": event_log.as_uri(),
            "spark.driver.host": "127.0.0.1",
            # A local session ends when it has not heard of itself for a while, because the machine
            # stood still; and ten minutes after it has lost its blocks (`Losing`), which it can
            # register again in clusters only.
            "spark.network.timeout": "3600s",
            "spark.executor.heartbeat.maxFailures": "100000",
            "spark.sql.session.timeZone": "UTC",
        }
    )
    try:
        session = open_session("tests")
    except JavaMissing as missing:
        pytest.fail(str(missing), pytrace=False)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="package")
def running_msh(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[Machine]:
    folder: Path = tmp_path_factory.mktemp("msh")
    machine = Machine(folder, f"{settings.DATABASES['default']['NAME']}_spark")
    with django_db_blocker.unblock():
        machine.create()
    try:
        machine.start()
        yield machine
    finally:
        with django_db_blocker.unblock():
            machine.destroy()


@pytest.fixture(scope="package")
def token(running_msh: Machine) -> str:
    """Of an application that may do all that the bridge does."""
    scopes = "send,read,read_payload"
    process = running_msh.start_python("manage.py", "token", "spark", "--scopes", scopes)
    output, _ = process.communicate()
    assert process.returncode == 0
    return output.decode().strip()


@pytest.fixture(scope="package")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build(tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def office(
    running_msh: Machine, token: str, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[Office]:
    """The MSH as a Spark user has it; this process looks into its database."""
    file = tmp_path / "token"
    file.write_text(token + "\n")
    with django_db_blocker.unblock(), running_msh.database(), Office(running_msh, file) as made:
        yield made
