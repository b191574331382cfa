"""A Spark cluster that looks like two machines: a master and two workers, each with an address and
a core of its own. Spark tries a task that is slow on another machine, never on the same one."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msh import processes
from tests.waiting import wait_until

WORKERS = ("127.0.0.1", "127.0.0.2")
_MASTER, _WORKER = (
    f"org.apache.spark.deploy.{name}" for name in ("master.Master", "worker.Worker")
)
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


def submit_arguments(settings: Mapping[str, str]) -> str:
    """For PYSPARK_SUBMIT_ARGS: a session of this process will have these settings."""
    words = [f"--conf {name}={value}" for name, value in settings.items()]
    return " ".join([*words, "pyspark-shell"])


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Its address, for SPARK_MASTER. At the end of the block it is gone."""
    with ExitStack() as stack:
        master = _start(stack, folder / "master.log", _MASTER, "--host", WORKERS[0], "--port", "0")
        address = _told(master, r"Starting Spark master at (spark://\S+)")
        for host in WORKERS:
            size = ("--cores", "1", "--memory", "600m", "--work-dir", str(folder / host))
            log = _start(stack, folder / f"{host}.log", _WORKER, "--host", host, *size, address)
            _told(log, "(Successfully registered)")
        yield address


@contextmanager
def connect_server(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """The address of a server of Spark Connect on this machine, for SPARK_REMOTE, with these
    settings. At the end of the block it is gone."""
    configured = [
        word for name, value in settings.items() for word in ("--conf", f"{name}={value}")
    ]
    command = [
        f"{os.environ['SPARK_HOME']}/bin/spark-submit",
        "--master",
        "local[2,4]",
        *configured,
    ]
    with ExitStack() as stack:
        log = _spawn(
            stack, folder / "connect.log", [*command, "--class", _CONNECT, "spark-internal"]
        )
        port = _told(log, r"started at: .*:(\d+)")
        yield f"sc://127.0.0.1:{port}"


def _start(stack: ExitStack, log: Path, *words: str) -> Path:
    command = [f"{os.environ['SPARK_HOME']}/bin/spark-class", *words, "--webui-port", "0"]
    return _spawn(stack, log, command)


def _spawn(stack: ExitStack, log: Path, command: Sequence[str]) -> Path:
    environment = os.environ | {
        "SPARK_LOCAL_IP": WORKERS[0],
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }
    process = processes.spawn(command, log=log, env=environment)
    stack.callback(processes.stop, process)
    return log


def _told(log: Path, pattern: str) -> str:
    wait_until(lambda: re.search(pattern, log.read_text()), what=f"{pattern} in {log}")
    found = re.search(pattern, log.read_text())
    assert found
    return found[1]
