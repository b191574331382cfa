"""Refused rows as JSON lines: `message_id`, `reason`, `code`, and the `row` as it came, bytes as
base64, and of a value longer than LONGEST_VALUE its size only: Spark reads no line that is longer
than 20 MB.

A task writes a hidden file; the commit of the job makes one file of them, so that what a failed or
duplicated attempt wrote is never seen, and removes those of attempts that were killed. What is left
of a driver that was killed, a later commit removes after ABANDONED_AFTER.
"""

import base64
import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Self

from spark_bridge.files import file_system, files_in
from spark_bridge.message import Line

LONGEST_VALUE = 1024 * 1024
"""Characters or bytes."""
ABANDONED_AFTER = timedelta(days=7)
_END = ".tmp"
_PIECE = 1024 * 1024  # bytes


class RejectedRows:
    """The file of one attempt of one task of a `run`, made with the first row. A `with` block."""

    def __init__(self, folder: str, run: str) -> None:
        self._folder = folder
        self._run = run
        self._stream: Any = None
        self._digests = 0
        self.file = ""
        """Its hidden name in the folder; empty: there is none."""

    @property
    def digest(self) -> int:
        """Of its rows, in whatever order: those of several files are added."""
        return self._digests % 2**128

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def add(self, line: Line, reason: str, code: str = "") -> None:
        if self._stream is None:
            files, folder = file_system(self._folder)
            files.create_dir(folder, recursive=True)
            self.file = f"{_hidden(self._run)}{uuid.uuid4().hex}{_END}"
            self._stream = files.open_output_stream(f"{folder}/{self.file}")
        row = {name: _shown(value) for name, value in line.row.items()}
        document = {"message_id": line.message_id, "reason": reason, "code": code, "row": row}
        text = json.dumps(document, ensure_ascii=False, default=_as_text).encode()
        self._digests += int.from_bytes(sha256(text).digest())
        self._stream.write(text + b"\n")


def publish(folder: str, run: str, parts: Iterable[str], name: str) -> None:
    """Make one file of these, however many tasks wrote them: the same rows, refused again by other
    tasks, replace it."""
    files, root = file_system(folder)
    whole = f"{root}/{_hidden(run)}{uuid.uuid4().hex}{_END}"
    with files.open_output_stream(whole) as target:
        for part in parts:
            with files.open_input_stream(f"{root}/{part}") as source:
                while piece := source.read(_PIECE):
                    target.write(piece)
    try:
        files.move(whole, f"{root}/{name}")
    except OSError:  # HDFS replaces no file by another
        files.delete_file(f"{root}/{name}")
        files.move(whole, f"{root}/{name}")


def sweep(folder: str, runs: Iterable[str]) -> None:
    """Remove what the tasks of these runs have left, those that were killed too, and what is too
    old to be of a run that goes on."""
    files, root = file_system(folder)
    hidden, old = tuple(map(_hidden, runs)), datetime.now(UTC) - ABANDONED_AFTER
    for each in files_in(folder):
        is_ours = each.base_name.startswith(".") and each.base_name.endswith(_END)
        if is_ours and (each.base_name.startswith(hidden) or each.mtime < old):
            files.delete_file(f"{root}/{each.base_name}")


def micro_batches(folder: str, query: str, last: int) -> list[str]:
    """The runs of a streaming query, up to its micro-batch `last`, that have left hidden files."""
    beginning = _hidden(query)
    left = [each.base_name for each in files_in(folder) if each.base_name.startswith(beginning)]
    numbers = {name.removeprefix(beginning).partition("-")[0] for name in left}
    return [f"{query}-{number}" for number in numbers if number.isdigit() and int(number) <= last]


def _hidden(run: str) -> str:
    return f".{run}-"


def _shown(value: object) -> object:
    match value:
        case str() | bytes() if len(value) > LONGEST_VALUE:
            return f"({len(value)} {'bytes' if isinstance(value, bytes) else 'characters'})"
        case dict():
            return {name: _shown(each) for name, each in value.items()}
        case list():
            return [_shown(each) for each in value]
    return value


def _as_text(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray) else str(value)
