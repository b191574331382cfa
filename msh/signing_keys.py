"""Our own keys for signatures, read from files, never from the database (EB-178).

MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE name as many files each. Two of them overlap while we
change ours: partners pin the successor before it signs. Files that are replaced are read again.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from msh.pem import KeyUnusable, SigningKey, signing_key, valid_at

logger = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of these files, and what they were like then."""

    paths: tuple[str, ...] = ()
    stamp: _Stamp = ()
    keys: tuple[SigningKey, ...] = ()


_read = _Read()


def our_keys() -> tuple[SigningKey, ...]:
    """All of them, none if none is set. While files that were read once cannot be used, as a key
    whose certificate is still to come, those before them stay. Raises KeyUnusable, with a text that
    names the file or setting and never has any of a key."""
    global _read
    keys, certificates = settings.MSH_SIGNING_KEY, settings.MSH_SIGNING_CERTIFICATE
    if len(keys) != len(certificates):
        raise KeyUnusable("MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE name as many files each")
    paths = (*keys, *certificates)
    before = _read if _read.paths == paths else _Read(paths)
    stamp: _Stamp = ()
    try:
        stamp = tuple(map(_stamp, paths))
        if stamp != before.stamp:
            pairs = zip(keys, certificates, strict=True)
            loaded = tuple(_load(Path(key), Path(certificate)) for key, certificate in pairs)
            before = _Read(paths, stamp, loaded)
    except KeyUnusable as problem:
        if not before.keys:
            raise
        if stamp != before.stamp:
            logger.warning("our key for signatures stays, its successor is unusable: %s", problem)
        before = _Read(paths, stamp, before.keys)
    _read = before
    return before.keys


def our_key() -> SigningKey:
    """The one to sign with now. Raises KeyUnusable as `our_keys`, and if there is none."""
    keys = our_keys()
    if not keys:
        raise KeyUnusable("MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE are not set")
    if (valid := valid_at(keys, timezone.now())) is None:
        raise KeyUnusable("no certificate of MSH_SIGNING_CERTIFICATE is valid now")
    return valid


def why_no_key() -> str:
    """Empty if we can sign."""
    try:
        our_key()
    except KeyUnusable as problem:
        return str(problem)
    return ""


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        stat = Path(path).stat()
    except OSError as problem:
        raise KeyUnusable(f"{path}: {problem.strerror}") from None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _load(key: Path, certificate: Path) -> SigningKey:
    try:
        return signing_key(key.read_bytes(), certificate.read_bytes())
    except OSError as problem:
        raise KeyUnusable(f"{problem.filename}: {problem.strerror}") from None
    except KeyUnusable as problem:
        raise KeyUnusable(f"{key}: {problem}") from None
