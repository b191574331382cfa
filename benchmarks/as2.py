"""django-pyas2 with receipts, the alternative in Python that people have: for comparison.

Two instances, each with a database beside that of an MSH, gunicorn with two processes of four
threads, and files where it keeps payloads. Nothing is signed or encrypted: with that it is slower.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psycopg

from msh.processes import spawn, stop

from . import wire
from .as2_client import MODES
from .exchange import Exchange
from .figure import wait_until
from .msh import ROOT, Msh, free_port
from .report import tell
from .stage import Stage

TOOLS = ROOT / "var" / "bench-tools" / "as2"
_PYTHON = str(TOOLS / "bin" / "python")
_PACKAGES = ("django-pyas2==1.2.3", "Django==5.2.*", "psycopg[binary]~=3.2", "gunicorn==23.*")
_STATES = "SELECT count(*) FROM pyas2_message WHERE direction = %s AND status = 'S'"


class ToAs2:
    """The exchange just measured, against django-pyas2 with `clients` that send. Its receipts are
    synchronous, or asynchronous by its own command: the floor is what is faster."""

    minimum = 0.0

    def __init__(self, exchange: Exchange, stage: Stage, clients: int, messages: int) -> None:
        self.name = f"{exchange.name}_to_pyas2"
        self._exchange = exchange
        self._stage = stage
        self._clients = clients
        self._messages = messages
        self._sides: dict[str, _Side] = {}
        self._rates: dict[str, list[float]] = {mode: [] for mode in MODES}

    def quiet(self) -> AbstractContextManager[None]:
        return self._exchange.quiet()

    def product(self) -> float:
        """As just measured."""
        return self._exchange.rates[-1]

    def floor(self) -> float:
        if not self._sides:
            self._set_up()
        with self._sides["sender"].serving(), self._sides["receiver"].serving():
            for mode in MODES:
                self._rates[mode].append(self._run(mode))
        return max(rates[-1] for rates in self._rates.values())

    def facts(self) -> dict[str, Any]:
        return {
            f"pyas2_{mode.lower()}_per_second": rates[-1] for mode, rates in self._rates.items()
        }

    def _set_up(self) -> None:
        install()
        stage = self._stage
        folder = stage.sender.folder.parent / "as2"
        ports = {"sender": free_port(), "receiver": free_port()}
        for side, msh in (("sender", stage.sender), ("receiver", stage.receiver)):
            self._sides[side] = _Side(side, msh, folder / side, ports)
            self._sides[side].set_up()

    def _run(self, mode: str) -> float:
        """Messages per second until the last receipt is there."""
        sender, receiver = self._sides["sender"], self._sides["receiver"]
        before = (sender.count("OUT"), receiver.count("IN"))
        total = self._clients * self._messages
        with sender.client("send", mode, self._clients, self._messages) as client:
            assert client.stdin is not None
            _expect(client, "ready\n")
            started = time.monotonic()
            client.stdin.write("go\n")
            client.stdin.flush()
            _expect(client, "done\n")
            if mode == "ASYNC":
                receiver.manage("manageas2server", "--async-mdns")
                wait_until(lambda: sender.count("OUT") >= before[0] + total, "received", str)
            seconds = time.monotonic() - started
        after = (sender.count("OUT"), receiver.count("IN"))
        if after != (before[0] + total, before[1] + total):
            raise RuntimeError(f"{total} sent by pyas2, but before and after: {before}, {after}")
        return total / seconds


class _Side:
    """One instance."""

    def __init__(self, name: str, msh: Msh, folder: Path, ports: dict[str, int]) -> None:
        self.name = name
        self._msh = msh
        self._folder = folder
        self._port = ports[name]
        other = ports["receiver" if name == "sender" else "sender"]
        self._other = f"http://127.0.0.1:{other}/as2receive"
        self._url = ""

    @property
    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "benchmarks.as2_settings",
            "AS2_DATABASE_URL": self._url,
            "AS2_FOLDER": str(self._folder),
            "AS2_MDN_URL": f"http://127.0.0.1:{self._port}/as2receive",
        }

    def set_up(self) -> None:
        self._folder.mkdir(parents=True)
        self._url = self._msh.beside("as2")
        self.manage("migrate", "--verbosity=0", "--skip-checks")
        self._run("-m", "benchmarks.as2_client", "partners", self.name, self._other)
        (self._folder / "order.xml").write_bytes(wire.ORDER.encode())

    def manage(self, *arguments: str) -> None:
        self._run("-m", "django", *arguments)

    def count(self, direction: str) -> int:
        with psycopg.connect(self._url) as connection:
            (count,) = connection.execute(_STATES, (direction,)).fetchone() or (0,)
        return int(count)

    def client(self, *arguments: object) -> "subprocess.Popen[str]":
        order = self._folder / "order.xml"
        return subprocess.Popen(
            [_PYTHON, "-m", "benchmarks.as2_client", *map(str, arguments), order],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def serving(self) -> Iterator[None]:
        command = [
            *(_PYTHON, "-m", "gunicorn", "--workers=2", "--threads=4", "--log-level=warning"),
            *(f"--bind=127.0.0.1:{self._port}", "django.core.wsgi:get_wsgi_application()"),
        ]
        log = self._folder / "gunicorn.log"
        with ExitStack() as stack:
            process = spawn(command, log=log, cwd=ROOT, env=self._environment)
            stack.callback(stop, process, seconds=10)
            wait_until(self._answers, "answering", log.read_text)
            yield

    def _answers(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/as2receive")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            [_PYTHON, *arguments],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"pyas2, {' '.join(arguments)}: {done.stderr.strip()[-3000:]}")


def install() -> None:
    """A virtual environment of its own, once: it has other versions than we have."""
    ready = TOOLS / "ready"
    if ready.exists() and ready.read_text() == " ".join(_PACKAGES):
        return
    tell("installing django-pyas2 in a virtual environment of its own")
    subprocess.run([sys.executable, "-m", "venv", "--clear", TOOLS], check=True)
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    subprocess.run([_PYTHON, *pip, *_PACKAGES], check=True)
    for file in TOOLS.glob("lib/*/site-packages/oscrypto/_openssl/_libcrypto_c*.py"):
        # Its last release does not read version numbers of two digits, as of OpenSSL 3.0.17.
        text = file.read_text()
        file.write_text(text.replace(r"(\\d\\.\\d\\.\\d[a-z]*)", r"(\\d+\\.\\d+\\.\\d+[a-z]*)"))
    ready.write_text(" ".join(_PACKAGES))


def _expect(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdout is not None
    if process.stdout.readline() != line:
        raise RuntimeError("the client of pyas2 failed, see above")
