"""The certificate of a server of ours, which may be replaced while it runs."""

import logging
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

logger = logging.getLogger(__name__)

Stamp = tuple[tuple[int, int, int], ...]


def stamp_of(files: Iterable[Path | str]) -> Stamp:
    """What files are like: it changes when one is replaced. Take it before they are read: what
    changes meanwhile is read again. Raises OSError."""
    stats = [Path(file).stat() for file in files]
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in stats)


@dataclass(slots=True)
class ServerCertificate:
    """PEM files of a certificate with its chain, and of its key if that is separate. Raises OSError
    or ssl.SSLError if they cannot be used at the start."""

    cert: Path
    key: Path | None = None
    _read: Stamp = field(init=False)
    _context: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        self._read = self._stamp()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """For a new connection. A replaced file is read once; what cannot be used, as a certificate
        whose key is still to come, is logged, and the one before it stays."""
        try:
            found = self._stamp()
            if found != self._read:
                self._read = found
                self._context = self._load()
                logger.info("%s was replaced: new connections get this certificate", self.cert)
        except (OSError, ssl.SSLError) as problem:
            logger.warning("%s cannot be used, its predecessor stays: %s", self.cert, problem)
        return self._context

    def _stamp(self) -> Stamp:
        return stamp_of(file for file in (self.cert, self.key) if file)

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.cert, self.key)
        return context
