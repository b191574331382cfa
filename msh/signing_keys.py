"""Our own keys for signatures, read from files, never from the database (EB-178).

MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE name as many files each. Two of them overlap while we
change ours: partners pin the successor before it signs. Files that are replaced are read again.
"""

from pathlib import Path

from django.conf import settings
from django.utils import timezone

from msh.wire.ebms2.keys import KeyUnusable, SigningKey, signing_key, valid_at

_Stamp = tuple[tuple[str, int, int, int], ...]
_read: tuple[_Stamp, tuple[SigningKey, ...]] = ((), ())


def our_keys() -> tuple[SigningKey, ...]:
    """All of them, none if none is set. Raises KeyUnusable, with a text that names the setting and
    never has any of a key."""
    global _read
    keys, certificates = settings.MSH_SIGNING_KEY, settings.MSH_SIGNING_CERTIFICATE
    if len(keys) != len(certificates):
        raise KeyUnusable("MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE name as many files each")
    stamp = tuple(map(_stamp, (*keys, *certificates)))
    if _read[0] != stamp:
        pairs = zip(keys, certificates, strict=True)
        _read = stamp, tuple(_load(Path(key), Path(certificate)) for key, certificate in pairs)
    return _read[1]


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


def _stamp(path: str) -> tuple[str, int, int, int]:
    try:
        stat = Path(path).stat()
    except OSError as problem:
        raise KeyUnusable(f"{path}: {problem.strerror}") from None
    return path, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _load(key: Path, certificate: Path) -> SigningKey:
    try:
        return signing_key(key.read_bytes(), certificate.read_bytes())
    except OSError as problem:
        raise KeyUnusable(f"{problem.filename}: {problem.strerror}") from None
    except KeyUnusable as problem:
        raise KeyUnusable(f"{key}: {problem}") from None
