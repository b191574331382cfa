"""What a signature costs: one thread, eight threads that wait for the lock of the library, and as
many processes as the machine has cores."""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from demo.keys import Keys
from msh.pem import SigningKey, Trusted, signing_key
from msh.protocol.ebms.signature import SignatureTerms
from msh.wire.ebms2.signature import sign, verify

from . import wire
from .figure import Quiet

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

THREADS = 8
CORES = os.cpu_count() or 1
_SECONDS = 3.0
_TIMES = 200
_SPAWN = multiprocessing.get_context("spawn")
_PARTS = {"cid:payload-1": wire.ORDER.encode()}


@contextmanager
def all_of(quiet: Sequence[Quiet]) -> Iterator[None]:
    with ExitStack() as stack:
        for one in quiet:
            stack.enter_context(one())
        yield


def _key() -> SigningKey:
    with TemporaryDirectory() as folder:
        made = Keys(signed=True).make("us", Path(folder))
        return signing_key(
            *(Path(made[f"MSH_SIGNING_{name}"]).read_bytes() for name in ("KEY", "CERTIFICATE"))
        )


class _Signed:
    """A signed message of one part, to be signed and verified again."""

    def __init__(self) -> None:
        self._key = _key()
        self._plain = wire.envelope()
        self._signed = self.sign()

    def sign(self) -> bytes:
        return sign(self._plain, _PARTS, self._key)

    def verify(self) -> None:
        trusted = [Trusted(self._key.certificate)]
        verify(self._signed, _PARTS, trusted, SignatureTerms(), datetime.now(UTC))


class SignatureCost:
    """CPU of one signature, or of one verification."""

    unit = "ms"
    at_most = 0.0

    def __init__(self, name: str, quiet: Sequence[Quiet]) -> None:
        self.name = f"{name}_ms"
        self._act = name
        self._quiet = quiet

    def measure(self) -> float:
        act = getattr(_Signed(), self._act)
        act()  # the library is loaded
        with all_of(self._quiet):
            before = time.process_time()
            for _ in range(_TIMES):
                act()
            return 1000 * (time.process_time() - before) / _TIMES

    def facts(self) -> dict[str, Any]:
        return {"times": _TIMES}


class Verifications:
    """Those of eight threads against those of one; and those of several processes of eight threads
    each, as `--workers` gives a web server, against those of one of them."""

    minimum = 0.0

    def __init__(
        self, name: str, processes: int, *, floor_threads: int, quiet: Sequence[Quiet]
    ) -> None:
        self.name = name
        self._processes = processes
        self._floor_threads = floor_threads
        self._quiet = quiet

    def quiet(self) -> AbstractContextManager[None]:
        return all_of(self._quiet)

    def product(self) -> float:
        return _rate(self._processes, THREADS)

    def floor(self) -> float:
        return _rate(1, self._floor_threads)

    def facts(self) -> dict[str, Any]:
        return {"processes": self._processes, "threads": THREADS}


def _rate(processes: int, threads: int) -> float:
    """Verifications per second of all together, which begin at the same time."""
    together = _SPAWN.Barrier(processes)
    with _SPAWN.Pool(processes, initializer=_begin, initargs=(together,)) as pool:
        return sum(pool.map(_verified, [threads] * processes, chunksize=1)) / _SECONDS


_together: "Barrier"


def _begin(together: "Barrier") -> None:
    global _together
    _together = together


def _verified(threads: int) -> int:
    """How many in this process, within the time."""
    act = _Signed().verify
    act()  # the library is loaded
    _together.wait()
    ends = time.monotonic() + _SECONDS

    def work(_number: int) -> int:
        done = 0
        while time.monotonic() < ends:
            act()
            done += 1
        return done

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads)))
