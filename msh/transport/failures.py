"""Why an HTTP request was not answered, in the words that operators read. What is to be done about
it is decided by these words (`msh/flows/operations/inspection/answers.py`)."""

import os

import aiohttp


def why(error: Exception) -> str:
    """On one or more lines. The fault comes first: a table of many links shows only the beginning.

    `error`: an aiohttp.ClientError, OSError or ValueError.
    """
    match error:
        case aiohttp.ClientConnectorCertificateError():
            fault = getattr(error.certificate_error, "verify_message", error.certificate_error)
            text = f"Certificate not trusted: {fault} ({error.host}:{error.port})"
        case aiohttp.ClientConnectorDNSError():
            text = f"Host name not found: {error.host} ({_reason(error.os_error)})"
        case aiohttp.ClientConnectorSSLError():
            text = f"TLS failed: {_reason(error.os_error)} ({error.host}:{error.port})"
        case aiohttp.ClientConnectorError():
            text = f"Cannot connect to {error.host}:{error.port}: {_reason(error.os_error)}"
        case aiohttp.ServerDisconnectedError():
            text = "Connection closed before the answer"
        case aiohttp.InvalidURL():
            text = f"Invalid URL: {error.url}"
        case OSError():
            what = "TLS failed" if "[SSL" in str(error) else "Connection broken"
            text = f"{what}: {_reason(error)}"
        case _:
            text = f"{type(error).__name__}: {error}"
    return text


def _reason(error: OSError) -> str:
    """asyncio names the call and the address; the number of the error says why."""
    if error.errno is not None and error.errno > 0 and "call failed" in str(error):
        return os.strerror(error.errno)
    return error.strerror or str(error)
