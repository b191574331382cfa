"""Requests before anybody is asked who sends them: headers that are cheap to read, text in UTF-8.

A charset in a Content-Type is a stranger's choice, and Python has codecs that unpack (bz2) or need
time in the square of the length (punycode), as Django's reader of these headers does.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.utils.http import parse_header_parameters

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LENGTH_LIMIT = 1_000
"""Characters of a header that is read parameter by parameter. A Content-Type of ours has 130, the
Accept of a browser 200."""
_HEADERS = {"CONTENT_TYPE": "Content-Type", "HTTP_ACCEPT": "Accept"}


class Utf8Request(WSGIRequest):
    """A request whose form and query are UTF-8, whatever its Content-Type says."""

    def __init__(self, environ: "WSGIEnvironment") -> None:
        content_type = environ.pop("CONTENT_TYPE", None)
        super().__init__(environ)  # it would look the charset up
        if content_type is not None:
            environ["CONTENT_TYPE"] = content_type
            self.content_type, self.content_params = parse_header_parameters(content_type)


class Utf8Handler(WSGIHandler):
    request_class = Utf8Request


class HeaderCheck:
    """WSGI middleware in front of all applications: it answers a request with an unreadable header
    by 400."""

    def __init__(self, others: "WSGIApplication") -> None:
        self._others = others

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        wrong = ""
        for key, name in _HEADERS.items():
            value = environ.get(key, "")
            if len(value) > LENGTH_LIMIT:
                wrong = f"{name} has more than {LENGTH_LIMIT} characters"
            elif "*" in value and key == "CONTENT_TYPE":
                try:
                    parse_header_parameters(value)
                except ValueError:
                    wrong = f"{name} has a parameter in an unknown charset"
        if wrong:
            start_response("400 Bad Request", [("Content-Length", "0"), ("X-MSH-Error", wrong)])
            return ()
        return self._others(environ, start_response)
