"""The load job of the Spark bridge, against what the bulk endpoint takes from plain clients."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from demo.audit.spark_processes import descendants, program, tasks_of

from .bulk import LINES, Bulk
from .msh import ROOT, Msh
from .report import tell
from .stage import loaded_name
from .wire import ORDER

MAPPING = """\
key_columns = ["order_no"]
order_column = "order_no"

[message]
tpa_id = {column = "tpa_id"}
service_interface = {value = "QuoteToCollect"}
action = {value = "NewPurchaseOrder"}
payload = {column = "document"}
label = {value = "PurchaseOrder"}
"""
FILES = 8
LOOK_EVERY = 0.1
TELL_EVERY = 5.0
_LOADED = "SELECT coalesce(max(id), 0) FROM msh_outboundmessage"
ALL_HEAP = "--driver-memory 512m --driver-java-options '-Xms512m -XX:+AlwaysPreTouch' pyspark-shell"
"""For PYSPARK_SUBMIT_ARGS. A JVM collects no garbage before its heap is full, so it is given
little, and all at once: what grows then is beside the heap, and who needs more of it fails."""


@dataclass(frozen=True, slots=True)
class Run:
    """One load."""

    rows: int
    seconds: float
    """From the open session to the summary."""
    megabytes: dict[str, float]
    """The most that one process had: `web`; `task`, a Python process of Spark's that runs the
    bridge; `jvm`, driver and executor in one."""


class Loader:
    """Loads rows by the job into an MSH, which has its worker stopped meanwhile."""

    def __init__(self, msh: Msh, token: str, folder: Path) -> None:
        self._msh = msh
        self._folder = folder
        self._runs = 0
        folder.mkdir(parents=True)
        (folder / "mapping.toml").write_text(MAPPING)
        (folder / "token").write_text(token)

    def load(self, rows: int, *, submit: str = "pyspark-shell", options: Sequence[str] = ()) -> Run:
        """With PYSPARK_SUBMIT_ARGS, and options of the writer. RuntimeError, with the end of the
        log, unless every row was accepted."""
        self._runs += 1
        source = self._folder / f"rows-{rows}"
        if not source.exists():
            _write_rows(source, rows)
        summary = self._folder / "summary.json"
        with self._msh.paused("worker", "beat"), _Peaks(self._msh.web_processes()) as peaks:
            status = self._run(source, summary, peaks, submit, options)
        log = (self._folder / "log").read_text()[-3000:]
        if status:
            raise RuntimeError(f"the load ended with {status}:\n{log}")
        report = json.loads(summary.read_text())
        if report["accepted"] != rows:
            raise RuntimeError(f"{rows} rows, but the load reports {report}")
        return Run(rows, report["seconds"], peaks.megabytes)

    def _run(
        self, source: Path, summary: Path, peaks: "_Peaks", submit: str, options: Sequence[str]
    ) -> int:
        words = [
            *("--url", f"http://127.0.0.1:{self._msh.port}"),
            *("--token-file", str(self._folder / "token")),
            *("--source", str(source), "--format", "parquet"),
            *("--mapping", str(self._folder / "mapping.toml"), "--job-id", f"run-{self._runs}"),
            *("--summary", str(summary)),
            *(word for option in options for word in ("--option", option)),
        ]
        with (self._folder / "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "spark_bridge.load", *words],
                cwd=ROOT,
                env=os.environ | {"SPARK_MASTER": "local[2,4]", "PYSPARK_SUBMIT_ARGS": submit},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                peaks.driver = process.pid
                return self._wait(process)
            finally:
                process.terminate()
                process.wait()

    def _wait(self, process: "subprocess.Popen[bytes]") -> int:
        """Its exit status; until then, every few seconds a line with what is in the MSH."""
        before = self._msh.value(_LOADED)
        while True:
            try:
                return process.wait(TELL_EVERY)
            except subprocess.TimeoutExpired:
                tell(f"load {self._runs}: {self._msh.value(_LOADED) - before} rows are in")


class LoadJob:
    """Rows of a Parquet file, made messages in order by two tasks at a time.

    The rate is that of the rows beyond the first ones: those take the seconds in which Spark starts
    its processes and compiles, whatever the size of the load. The MSH has half of the cores,
    clients and Spark the others, as on machines of their own.

    Floor: as many messages that two clients send, who have them in memory as requests.
    """

    name = "load_job"
    minimum = 0.9
    _CLIENTS = 2
    _REQUESTS = 20
    _FIRST = 20_000
    _OPTIONS = (f"batchSize={LINES}", "compression=gzip")  # the clients' requests are such

    def __init__(self, msh: Msh, token: str, loader: Loader) -> None:
        self._msh = msh
        self._loader = loader
        self._bulk = Bulk(msh, token, self._CLIENTS, self._REQUESTS)

    def quiet(self) -> AbstractContextManager[None]:
        return apart(self._msh)

    def product(self) -> float:
        rows = self._CLIENTS * self._REQUESTS * LINES
        first, all_of_them = (
            self._loader.load(number, options=self._OPTIONS)
            for number in (self._FIRST, self._FIRST + rows)
        )
        return rows / (all_of_them.seconds - first.seconds)

    def floor(self) -> float:
        return self._bulk.product()

    def facts(self) -> dict[str, Any]:
        return {"rows": self._CLIENTS * self._REQUESTS * LINES}


@contextmanager
def apart(msh: Msh) -> Iterator[None]:
    """The first half of the cores for the MSH, the others for this process and what it starts
    meanwhile. Nothing is changed where there is one core."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2 or len(cores)
    server = Path(f"/proc/{msh.value('SELECT pg_backend_pid()')}/stat").read_text()
    postmaster = int(server.rpartition(")")[2].split()[1])
    theirs = [*msh.web_processes(), postmaster, *descendants(postmaster)]
    try:
        _bind(theirs, cores[:half])
        _bind([os.getpid()], cores[half:] or cores)
        yield
    finally:
        _bind([*theirs, os.getpid()], cores)


def _bind(pids: Iterable[int], cores: list[int]) -> None:
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)


class _Peaks:
    """Watches the processes of one run, by the kernel's own record of the most they had."""

    def __init__(self, web: list[int]) -> None:
        self._web = web
        self.driver = 0
        self.megabytes = {"web": 0.0, "task": 0.0, "jvm": 0.0}
        self._over = Event()
        self._watcher = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Peaks":
        for pid in self._web:
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the record begins anew
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY):
            self._look("web", self._web)
            if self.driver:
                self._look("task", tasks_of(self.driver))
                self._look("jvm", _jvms(self.driver))

    def _look(self, kind: str, pids: Iterable[int]) -> None:
        self.megabytes[kind] = max([self.megabytes[kind], *map(_most_megabytes, pids)])


def _jvms(driver: int) -> Iterator[int]:
    return (pid for pid in descendants(driver) if b"".join(program(pid)[:1]).endswith(b"/java"))


def _most_megabytes(pid: int) -> float:
    """Of resident memory, since the process began; 0 of one that is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM")), 0.0)


def _write_rows(folder: Path, rows: int) -> None:
    """Orders in files that have nothing to do with their order."""
    folder.mkdir()
    for file in range(FILES):
        numbers = list(range(file, rows, FILES))
        columns = {
            "order_no": numbers,
            "tpa_id": [loaded_name(number // FILES) for number in numbers],
            "document": [ORDER] * len(numbers),
        }
        pq.write_table(pa.table(columns), folder / f"{file}.parquet", row_group_size=10_000)
