"""Pages and static files of the console as light as can be: compressed, and kept by browsers."""

import secrets
from collections.abc import Iterable, Iterator
from functools import lru_cache
from gzip import GzipFile
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import cast

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

_PAGES = ("text/", "application/javascript", "image/svg+xml")
_COMPRESSED = {
    "/admin/": _PAGES,
    "/static/": _PAGES,
    # Not the bytes of a payload: they are as the partner sent them, and often packed already.
    "/api/": (
        *("application/json", "application/problem+json", "application/x-ndjson"),
        "application/vnd.oai.openapi",
    ),
}
"""Types of content by the beginning of the path."""


class VersionedStorage(StaticFilesStorage):
    """The address of a file changes with its content, so that browsers may keep it."""

    def url(self, name: str | None) -> str:
        address = super().url(name)
        version = _digest(name) if name else ""
        return f"{address}?v={version}" if version else address


@lru_cache(maxsize=1024)
def _digest(name: str) -> str:
    found = finders.find(name)
    return sha256(Path(found).read_bytes()).hexdigest()[:12] if isinstance(found, str) else ""


class Compression(GZipMiddleware):
    """Compress the answers of console and API: other applications decide for themselves. Django
    adds a random length, against BREACH, which the API does not need: a browser sends no token by
    itself."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        kinds = next((_COMPRESSED[at] for at in _COMPRESSED if request.path.startswith(at)), ())
        if not response.headers.get("Content-Type", "").startswith(kinds):
            return response
        pieces = response.streaming_content if isinstance(response, StreamingHttpResponse) else None
        response = super().process_response(request, response)
        if isinstance(response, StreamingHttpResponse) and response.has_header("Content-Encoding"):
            content = cast("Iterable[bytes]", pieces)
            response.streaming_content = _compressed(
                content, secrets.randbelow(self.max_random_bytes)
            )
        return response


def _compressed(pieces: Iterable[bytes], added: int) -> Iterator[bytes]:
    """A gzip file that goes on with its content. Django's begins with its head, without any
    content, so that an error in the first piece could no longer be answered; and keeps what it has
    of the content until there is much of it. `added`: bytes without a meaning."""
    packed = BytesIO()
    with GzipFile("a" * added, "wb", 6, packed, mtime=0) as file:
        for number, piece in enumerate(pieces):
            file.write(piece)
            if number == 0:
                file.flush()
            if found := packed.getvalue():
                packed.seek(0)
                packed.truncate()
                yield found
    yield packed.getvalue()
