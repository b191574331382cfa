"""What other gateways, mail programs and libraries are known to send, and what has to come of it.

Inputs are put together here, by `package` and the peer's own `Outgoing`.
"""

from collections.abc import Iterable

from tests.peer.ebms2 import Outgoing

NAMED = "<envelope@peer>"


def part(*headers: str, content: bytes = b"") -> bytes:
    """Header lines as they go out, and what they are about."""
    return b"".join((*(f"{line}\r\n".encode() for line in headers), b"\r\n", content))


def root_of(out: Outgoing, *headers: str) -> bytes:
    lines = headers or (f"Content-ID: {NAMED}", "Content-Type: text/xml; charset=UTF-8")
    return part(*lines, content=out.envelope.encode())


def payload(content: bytes = b"<order/>", *headers: str, name: str = "<order@peer>") -> bytes:
    return part(f"Content-ID: {name}", *(headers or ("Content-Type: text/xml",)), content=content)


def package(*parts: bytes, boundary: str = "peer-boundary") -> bytes:
    return package_of(parts, boundary)


def package_of(parts: Iterable[bytes], boundary: str = "peer-boundary") -> bytes:
    mark = boundary.encode()
    return b"".join((*(b"--%b\r\n%b\r\n" % (mark, one) for one in parts), b"--%b--\r\n" % mark))
