"""One request: its head as it was parsed, and its body as far as it has come."""

import io
import sys
from urllib.parse import unquote_to_bytes
from wsgiref.types import WSGIEnvironment

import httptools

from msh import proxies

from .senders import Sender
from .spool import Spool

_BASE: WSGIEnvironment = {
    "GATEWAY_INTERFACE": "CGI/1.1",
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "MSH",
    "wsgi.errors": sys.stderr,
    "wsgi.input_terminated": True,
    "wsgi.multiprocess": True,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}
_NAMES_LIMIT = 1000  # names that are kept: a client may invent any number
_names: dict[bytes, str] = {}
"""Headers that were seen, as WSGI names them."""

Address = tuple[str, int]
Header = tuple[bytes, bytes]


class BadRequestError(ValueError):
    """The address or a header makes no sense."""


class Request:
    """`environ` is complete but for its input."""

    __slots__ = (
        "announced",
        "body",
        "complete",
        "environ",
        "expects",
        "is_chunked",
        "keep_alive",
        "limit",
        "path",
        "sender",
    )

    def __init__(
        self,
        parser: httptools.HttpRequestParser,
        url: bytes,
        headers: list[Header],
        client: Address,
        server: Address,
    ) -> None:
        environ = _BASE.copy()
        environ["REQUEST_METHOD"] = parser.get_method().decode()
        environ["SERVER_PROTOCOL"] = f"HTTP/{parser.get_http_version()}"
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = client[0], str(client[1])
        environ["SERVER_NAME"], environ["SERVER_PORT"] = server[0], str(server[1])
        environ["wsgi.url_scheme"] = "http"
        self.path = _add_url(environ, url)
        for name, value in headers:
            _add_header(environ, name, value)
        proxies.resolve(environ)
        self.environ = environ
        self.keep_alive: bool = parser.should_keep_alive()
        self.is_chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
        self.announced = int(environ.get("CONTENT_LENGTH") or 0)
        self.expects = environ.get("HTTP_EXPECT", "").lower() == "100-continue"
        self.body: Spool | None = None
        self.complete = False
        self.limit: int | None = None
        """Bytes of the body that are taken; None until that is decided."""
        self.sender: Sender | None = None

    @property
    def method(self) -> str:
        return str(self.environ["REQUEST_METHOD"])

    @property
    def is_http_1_0(self) -> bool:
        return bool(self.environ["SERVER_PROTOCOL"] == "HTTP/1.0")

    @property
    def is_too_large(self) -> bool:
        return self.limit is not None and self.body is not None and self.body.size > self.limit

    def with_input(self) -> WSGIEnvironment:
        """The environment for the application: with the whole body, or one that is not read."""
        if self.complete or self.is_too_large:
            self.environ["wsgi.input"] = self.body.reader() if self.body else io.BytesIO()
        else:
            self.environ["wsgi.input"] = Withheld()
        return self.environ

    def close(self) -> None:
        if self.body is not None:
            self.body.close()


class Withheld(io.RawIOBase):
    """The body of a request that has to be answered from its head."""

    def readable(self) -> bool:
        return True

    def readinto(self, _buffer: object) -> int:
        raise OSError("the body of a rejected request is not read")


def _add_url(environ: WSGIEnvironment, url: bytes) -> str:
    try:
        parsed = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        raise BadRequestError("the request target is invalid") from None
    path = (parsed.path or b"/").decode("latin-1")
    if "%" in path:
        path = unquote_to_bytes(path).decode("latin-1")
    environ["PATH_INFO"] = path
    environ["QUERY_STRING"] = (parsed.query or b"").decode("latin-1")
    return path


def _add_header(environ: WSGIEnvironment, name: bytes, value: bytes) -> None:
    key = _names.get(name)
    if key is None:
        key = _wsgi_name(name)
        if len(_names) < _NAMES_LIMIT:
            _names[name] = key
    if not key:
        return
    text = value.decode("latin-1")
    if key in environ:
        text = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{text}"
    environ[key] = text


def _wsgi_name(name: bytes) -> str:
    """ "" for a name with `_`: WSGI would take it for one with `-`, such as a proxy's own."""
    if b"_" in name:
        return ""
    key = name.decode("latin-1").upper().replace("-", "_")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
