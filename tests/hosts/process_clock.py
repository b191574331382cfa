"""The wall clock of a process, which a test may set while it runs."""

from collections.abc import Mapping
from pathlib import Path

from tests.waiting import wait_until

FOLDER = Path(__file__).parent / "clock"


class Clock:
    def __init__(self, file: Path, days: float = 0) -> None:
        """`days`: that it is ahead from the start."""
        self._file = file
        file.write_text(str(days * 86_400.0))

    def set(self, days: float) -> None:
        """Let it be so many days ahead. Returns when the processes go by that."""
        ahead = str(days * 86_400.0)
        new = self._file.with_suffix(".new")
        new.write_text(ahead)
        new.replace(self._file)
        wait_until(lambda: {file.read_text() for file in self._seen()} <= {ahead})

    def forget(self) -> None:
        """Its processes have ended."""
        for file in self._seen():
            file.unlink()

    def _seen(self) -> list[Path]:
        return list(self._file.parent.glob(f"{self._file.name}.seen.*"))

    @property
    def environment(self) -> Mapping[str, str]:
        """What makes a process go by it."""
        return {"PYTHONPATH": str(FOLDER), "MSH_TEST_CLOCK": str(self._file)}
