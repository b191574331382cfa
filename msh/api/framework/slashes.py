"""A MessageId in a path may hold slashes: its own are written %2F."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes, urlsplit

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_ENCODED = re.compile("%2f", re.IGNORECASE)
_NAMELESS = "/api/%00"


class EncodedSlashes:
    """WSGI decodes the path, and then the history of `x` and the message `x/history` have the same
    one. Here PATH_INFO gets a NUL for each encoded slash, which MessageIdConverter of
    `msh/api_urls.py` reads, and no path has else. RAW_URI: the request target as it was sent.
    """

    def __init__(self, application: "WSGIApplication") -> None:
        self._application = application

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path.startswith("/api/"):
            raw = environ.get("RAW_URI", "")
            if "\0" in path:
                environ["PATH_INFO"] = _NAMELESS
            elif _ENCODED.search(raw):
                sent = raw if raw.startswith("/") else urlsplit(raw).path
                pieces = _ENCODED.split(sent.partition("#")[0].partition("?")[0])
                environ["PATH_INFO"] = "\0".join(
                    unquote_to_bytes(piece).decode("latin-1") for piece in pieces
                )
        return self._application(environ, start_response)
