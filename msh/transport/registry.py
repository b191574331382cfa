"""Scheme of an address → the transport for it."""

from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

from msh.protocol.attempt import AttemptResult
from msh.transport.http import HttpTransport
from msh.transport.job import Job
from msh.transport.smtp import SmtpTransport


class Transport(Protocol):
    """Transmits jobs of one event loop. Made, used and closed inside that loop."""

    async def post(self, job: Job) -> AttemptResult | None:
        """Make the attempt and return how it ended; None if it was not made because its `not_after`
        had passed."""

    async def close(self) -> None: ...


TRANSPORTS: dict[str, Callable[[], Transport]] = {
    "http": HttpTransport,
    "https": HttpTransport,
    "mailto": SmtpTransport,
}
_OF_LINES = frozenset({"mailto"})


class UnknownSchemeError(ValueError):
    """No transport for an address. `str()` is a sentence that names the cure."""


def transport_for(url: str) -> Callable[[], Transport]:
    """Return the factory of the transport for `url`. Raises UnknownSchemeError for other
    schemes."""
    scheme = urlsplit(url).scheme.lower()
    try:
        return TRANSPORTS[scheme]
    except KeyError:
        known = ", ".join(sorted(TRANSPORTS))
        raise UnknownSchemeError(
            f"No transport for {scheme or 'an address without a scheme'}: {url}."
            f" The partner's address must begin with one of: {known}."
        ) from None


def transmits_lines_only(url: str) -> bool:
    """Whether what goes to `url` must be lines of ASCII, not any bytes."""
    return urlsplit(url).scheme.lower() in _OF_LINES
