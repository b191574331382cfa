"""Files of the console: compressed, kept by browsers, and no icon without its picture."""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.templatetags.static import static
from django.test import Client, RequestFactory

from msh.web.static_files import Compression

NUMBERS = [str(number) for number in range(10_000)]
ROOT = Path(__file__).resolve().parents[2]
_ICON = re.compile(r"material-symbols-outlined[^>{}]*>\s*([a-z][a-z_0-9]+)\s*<")
_IN_CODE = re.compile(r"""(?:icon ?[:=] ?|Item\("[^"]+", |Jump\("[^"]+", )"([a-z_0-9]+)\"""")


def test_the_address_of_a_file_changes_with_its_content() -> None:
    assert re.fullmatch(r"/static/msh/console\.css\?v=[0-9a-f]{12}", static("msh/console.css"))
    assert static("msh/console.css")[-12:] != static("msh/console.js")[-12:]
    assert static("no/such.css") == "/static/no/such.css"


@pytest.mark.django_db
def test_pages_files_and_answers_of_the_api_are_compressed() -> None:
    client = Client(headers={"Accept-Encoding": "gzip"})
    page = client.get("/admin/login/")
    assert page.headers["Content-Encoding"] == "gzip"
    assert b"MSH console" in gzip.decompress(page.content)
    sheet = client.get(static("unfold/css/styles.css"))
    body = b"".join(sheet.streaming_content)  # type: ignore[attr-defined]
    assert sheet.headers["Content-Encoding"] == "gzip"
    assert len(body) < 60_000
    assert "max-age=2592000" in sheet.headers["Cache-Control"]
    document = client.get("/api/schema?format=json")
    assert document.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(document.content))["openapi"]
    assert "Content-Encoding" not in client.get("/health/ready").headers


def compressed(pieces: Iterator[str]) -> HttpResponseBase:
    request = RequestFactory().get("/admin/rows/", headers={"Accept-Encoding": "gzip"})
    answer = StreamingHttpResponse(pieces, content_type="text/csv")
    response = Compression(lambda _: answer)(request)
    assert isinstance(response, HttpResponseBase)
    assert response.headers["Content-Encoding"] == "gzip"
    return response


def test_a_compressed_answer_does_not_begin_before_its_first_piece() -> None:
    """So that an error in it is answered as one."""

    broken = (str(1 // number) for number in range(2))
    with pytest.raises(ZeroDivisionError):
        next(iter(cast("StreamingHttpResponse", compressed(broken))))


def test_a_compressed_answer_begins_with_its_first_piece() -> None:
    """However short it is, before the second is made."""
    pieces = (str(1 // number) for number in (1, 0))
    first = next(iter(cast("StreamingHttpResponse", compressed(pieces))))
    assert zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(first) == b"1"


@pytest.mark.parametrize("text", [[], ["one"], ["one", "", "two"], NUMBERS])
def test_a_compressed_answer_is_whole(text: list[str]) -> None:
    body = b"".join(cast("StreamingHttpResponse", compressed(iter(text))))
    assert gzip.decompress(body).decode() == "".join(text)


def test_the_font_has_every_icon() -> None:
    """If not: add its name to icons.txt and run tools/icons.py."""
    known = set((ROOT / "msh/static/msh/icons.txt").read_text().split())
    pages = (ROOT / "templates").rglob("*.html")
    code = (ROOT / "msh/admin").rglob("*.py")
    used = {name for page in pages for name in _ICON.findall(page.read_text())}
    used |= {name for module in code for name in _IN_CODE.findall(module.read_text())}
    assert len(used) > 30
    assert used - known == set()
