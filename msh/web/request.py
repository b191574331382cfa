"""One request: its head as aiohttp has read it, and its body as far as it has come."""

import io
import sys
from urllib.parse import unquote_to_bytes
from wsgiref.types import WSGIEnvironment

from aiohttp import HttpVersion10, HttpVersion11, web

from msh import proxies

from . import refusals
from .limits import HEAD_LIMIT
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


class Refused(Exception):
    """The request is answered with `status`, and the application does not see it."""

    def __init__(self, status: int, reason: str, wait: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.wait = wait


class Request:
    """`environ` is complete but for its input. Raises Refused for a head that makes no sense."""

    __slots__ = (
        "announced",
        "body",
        "complete",
        "environ",
        "expects",
        "is_chunked",
        "is_last",
        "limit",
        "path",
        "sender",
    )

    def __init__(self, http: web.BaseRequest, client: Address, server: Address) -> None:
        environ = _BASE.copy()
        environ["REQUEST_METHOD"] = http.method
        environ["SERVER_PROTOCOL"] = _protocol(http)
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = client[0], str(client[1])
        environ["SERVER_NAME"], environ["SERVER_PORT"] = server[0], str(server[1])
        environ["wsgi.url_scheme"] = "http"
        self.path = _add_url(environ, http)
        size = len(http.raw_path)
        for name, value in http.raw_headers:
            size += len(name) + len(value)
            _add_header(environ, name, value)
        if size > HEAD_LIMIT:
            raise Refused(431, refusals.TOO_LONG)
        coding = environ.get("HTTP_TRANSFER_ENCODING")
        if coding is not None and coding.lower() != "chunked":
            raise Refused(501, f"Transfer-Encoding {coding} is not supported: send chunked")
        proxies.resolve(environ)
        self.environ = environ
        self.is_chunked = coding is not None
        # aiohttp 3.14 takes the trailer of a body in chunks for a header of the next request, and
        # loses what comes in one piece with the end of a request that offers another protocol.
        self.is_last = self.is_chunked or "HTTP_UPGRADE" in environ
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
    def shown_id(self) -> str:
        """What the client names the request, or empty."""
        return str(self.environ.get("HTTP_X_REQUEST_ID", ""))

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


def _protocol(http: web.BaseRequest) -> str:
    if http.version not in (HttpVersion10, HttpVersion11):
        raise Refused(505, "send HTTP/1.1")
    if http.method == "CONNECT":  # what follows is no HTTP
        raise Refused(501, "CONNECT is for proxies")
    return "HTTP/1.0" if http.version == HttpVersion10 else "HTTP/1.1"


def _add_url(environ: WSGIEnvironment, http: web.BaseRequest) -> str:
    target = http.raw_path
    if target.startswith("/"):
        path, _, query = target.partition("#")[0].partition("?")
    elif http.rel_url.raw_path.startswith("/"):  # the address was given whole, as to a proxy
        path, query = http.rel_url.raw_path, http.rel_url.raw_query_string
    else:
        raise Refused(400, "the request target is invalid")
    if "%" in path:
        path = unquote_to_bytes(path).decode("latin-1")
    environ["PATH_INFO"] = path
    environ["RAW_URI"] = target
    environ["QUERY_STRING"] = query
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
