"""Keys of ours that are read from files, and read again when these are replaced."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from django.views.decorators.debug import sensitive_variables

from msh.certificates import Stamp, stamp_of
from msh.pem import KeyUnusable

logger = logging.getLogger(__name__)

Key = TypeVar("Key")
_Files = tuple[str, ...]


class KeyFiles(Generic[Key]):
    """`purpose` says in a log what the keys are for. `load` makes a key of the contents of its
    files, and raises KeyUnusable."""

    def __init__(self, purpose: str, load: Callable[..., Key]) -> None:
        self._purpose, self._load_one = purpose, load
        self._files: tuple[_Files, ...] = ()
        self._stamp: Stamp = ()
        self._keys: tuple[Key, ...] = ()

    def read(self, files: Sequence[_Files]) -> tuple[Key, ...]:
        """The keys, each of these files of its own, of which the first has its name. While files
        that were read once cannot be used, as a key whose certificate is still to come, the keys
        before them stay. Raises KeyUnusable, with a text that names the file and never has any of
        it."""
        wanted = tuple(files)
        before = self._keys if self._files == wanted else ()
        known = self._stamp if self._files == wanted else ()
        stamp: Stamp = ()
        try:
            stamp = _stamp_of(wanted)
            if stamp != known:
                before = tuple(map(self._load, wanted))
        except KeyUnusable as problem:
            if not before:
                raise
            if stamp != known:
                logger.warning(
                    "our key for %s stays, its successor is unusable: %s", self._purpose, problem
                )
        self._files, self._stamp, self._keys = wanted, stamp, before
        return before

    @sensitive_variables()  # nor is what it calls shown
    def _load(self, files: _Files) -> Key:
        try:
            return self._load_one(*(Path(path).read_bytes() for path in files))
        except OSError as problem:
            raise KeyUnusable(f"{problem.filename}: {problem.strerror}") from None
        except KeyUnusable as problem:
            raise KeyUnusable(f"{files[0]}: {problem}") from None


def _stamp_of(files: Sequence[_Files]) -> Stamp:
    """Raises KeyUnusable."""
    try:
        return stamp_of(path for one in files for path in one)
    except OSError as problem:
        raise KeyUnusable(f"{problem.filename}: {problem.strerror}") from None
