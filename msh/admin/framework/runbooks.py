"""The runbooks of msh/runbooks/ as pages of the console: at night nobody looks for documents."""

import re
from pathlib import Path

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import mark_safe
from markdown_it import MarkdownIt

from msh.flows.operations.inspection.causes import Cause

RUNBOOKS = Path(__file__).resolve().parent.parent.parent / "runbooks"

_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_OTHER = re.compile(r'<a href="([\w-]+)\.md">')
_OUTSIDE = re.compile(r'<a href="(?!/)[^"]*">(.*?)</a>')
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def runbook_url(cause: Cause) -> str:
    return reverse("runbook", args=[cause.runbook]) if cause.runbook else ""


def runbook(request: HttpRequest, name: str) -> HttpResponse:
    page = RUNBOOKS / f"{name}.md"
    if not page.is_file():
        raise Http404(f"There is no runbook {name}.")
    text = page.read_text(encoding="utf-8")
    title = _TITLE.search(text)
    context = {
        **admin.site.each_context(request),
        "title": title[1] if title else name,
        "content": _html(_TITLE.sub("", text, count=1)),
    }
    return TemplateResponse(request, "admin/msh/framework/runbook.html", context)


def _html(text: str) -> str:
    """Links to other runbooks lead to their pages; those to other documents are text."""
    html = _MARKDOWN.render(text)
    html = _OTHER.sub(lambda found: f'<a class="text-link" href="{_url(found[1])}">', html)
    return mark_safe(_OUTSIDE.sub(r"\1", html))  # noqa: S308  our own file, without HTML


def _url(name: str) -> str:
    return reverse("runbook", args=[name])
