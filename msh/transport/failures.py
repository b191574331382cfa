"""Why an HTTP request was not answered: as a code, and in the words that operators read."""

import errno
import os
import ssl

import aiohttp

from msh.protocol.reason import Reason
from msh.transport.tls import TlsUnusable


def why(error: Exception) -> tuple[Reason, str]:
    """The text is on one or more lines. The fault comes first: a table of many links shows only the
    beginning.

    `error`: an aiohttp.ClientError, OSError or ValueError.
    """
    reason = _reason(error)
    match error:
        case aiohttp.ClientConnectorCertificateError():
            fault = getattr(error.certificate_error, "verify_message", error.certificate_error)
            text = f"Certificate not trusted: {fault} ({error.host}:{error.port})"
        case aiohttp.ClientConnectorDNSError():
            text = f"Host name not found: {error.host} ({_words(error.os_error)})"
        case aiohttp.ClientConnectorSSLError():
            text = f"TLS failed: {_words(error.os_error)} ({error.host}:{error.port})"
        case aiohttp.ClientHttpProxyError():
            text = f"The HTTP proxy answered {error.status} {error.message}"
        case aiohttp.ClientConnectorError():
            proxy = (
                "the HTTP proxy " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
            )
            text = f"Cannot connect to {proxy}{error.host}:{error.port}: {_words(error.os_error)}"
        case aiohttp.ServerDisconnectedError():
            text = "Connection closed before the answer"
        case aiohttp.InvalidURL():
            text = f"Invalid URL: {error.url}"
        case OSError():
            what = "TLS failed" if reason is Reason.TLS else "Connection broken"
            text = f"{what}: {_words(error)}"
        case _:
            text = str(error) or type(error).__name__
    return reason, text


_BY_CLASS: tuple[tuple[type[Exception], Reason], ...] = (
    (aiohttp.ClientConnectorCertificateError, Reason.TLS),
    (aiohttp.ClientConnectorDNSError, Reason.NAME),
    (aiohttp.ClientConnectorSSLError, Reason.TLS),
    (ssl.SSLError, Reason.TLS),
    (TlsUnusable, Reason.TLS),
    (aiohttp.ClientHttpProxyError, Reason.CONNECTION),
    (aiohttp.ClientConnectorError, Reason.CONNECTION),
    (aiohttp.ServerDisconnectedError, Reason.CUT),
    (OSError, Reason.CUT),
)
"""The first that an error is of."""


def _reason(error: Exception) -> Reason:
    cause = getattr(error, "os_error", error)
    if isinstance(cause, OSError) and cause.errno == errno.ETIMEDOUT:
        return Reason.TIMEOUT
    if isinstance(error, aiohttp.ClientOSError) and isinstance(error.__cause__, ssl.SSLError):
        return Reason.TLS  # aiohttp makes an error of its own of that of the library
    return next((reason for kind, reason in _BY_CLASS if isinstance(error, kind)), Reason.OTHER)


def _words(error: OSError) -> str:
    """asyncio names the call and the address; the number of the error says why."""
    if error.errno is not None and error.errno > 0 and "call failed" in str(error):
        return os.strerror(error.errno)
    return error.strerror or str(error)
