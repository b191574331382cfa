"""`/api/problems`: the page that `type` of a problem document leads to, a section for each code."""

from functools import cache
from itertools import pairwise
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from markdown_it import MarkdownIt

PAGE = Path(__file__).with_name("problems.md")
_MARKDOWN = MarkdownIt("commonmark", {"html": False})
_AROUND = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Errors of the API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 1rem/1.5 sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }}
:target {{ background: #fd6 }}
</style></head><body><main>
{}</main></body></html>
"""


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Nobody has to log in: it says nothing of this MSH."""
    return HttpResponse(_page())


@cache
def _page() -> str:
    tokens = _MARKDOWN.parse(PAGE.read_text(encoding="utf-8"))
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", inline.content.strip("`"))
    return _AROUND.format(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))
