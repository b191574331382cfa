"""The wall clock of a server, which a test may set while it runs."""

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hosts.network import HostsMissing

SOURCE = Path(__file__).parent / "clock" / "clock.c"
NO_COMPILER = "tests/hosts needs a C compiler: apt-get install gcc libc6-dev."
DAY = 86_400 * 10**9  # nanoseconds


class ServerClock:
    """`folder` is one of `clock_folder`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._library = folder / "clock.so"
        self._file = folder / name
        self._file.write_bytes(struct.pack("q", 0))
        self._file.chmod(0o644)

    def set(self, days: float) -> None:
        """Let it be so many days ahead, at once."""
        with self._file.open("r+b", buffering=0) as file:
            file.write(struct.pack("q", int(days * DAY)))

    @contextmanager
    def followed(self) -> Iterator[None]:
        """By what is started meanwhile."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(self._library))
            patch.setenv("MSH_TEST_CLOCK", str(self._file))
            yield


@contextmanager
def clock_folder() -> Iterator[Path]:
    """With the compiled library, where any user may read it. Raises HostsMissing."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise HostsMissing(NO_COMPILER)
    folder = Path(tempfile.mkdtemp(prefix="msh-clock-"))
    try:
        folder.chmod(0o755)
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(folder / "clock.so"), str(SOURCE)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise HostsMissing(f"{NO_COMPILER} ({made.stderr.strip()})")
        yield folder
    finally:
        shutil.rmtree(folder)
