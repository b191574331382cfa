"""The search over everything by id: each list is asked as its own search box would ask it."""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import capfirst

from msh.models import (
    Delivery,
    InboundConversation,
    InboundMessage,
    Incident,
    KeyRule,
    OutboundConversation,
    OutboundMessage,
    Signal,
)
from partners.models import Agreement, Partner

from . import markup
from .business_keys import DIRECTIONS, may_see_keys
from .pages import Table

ROWS = 10
"""Rows of each list that are shown."""
LONGEST = 500
SEARCHED: tuple[type[Model], ...] = (
    *(Partner, OutboundMessage, InboundMessage, Delivery, Incident, Agreement),
    *(OutboundConversation, InboundConversation, Signal),
)


def search(request: HttpRequest) -> HttpResponse:
    """One hit is opened at once."""
    term = request.GET.get("q", "").strip()[:LONGEST]
    found = {model: _rows(request, model, term) for model in _permitted(request)} if term else {}
    hits = [row for rows in found.values() for row in rows if not isinstance(row, Agreement)]
    hits = hits or list(found.get(Agreement, ()))  # those of a partner are found by its name, too
    if len(hits) == 1:
        return HttpResponseRedirect(_url(hits[0]))
    context = {
        **admin.site.each_context(request),
        "title": "Search",
        "term": markup.escape_invisible(term),
        "tables": [_table(model, rows, term) for model, rows in found.items() if rows],
        "keys": sorted(
            set(KeyRule.objects.filter(enabled=True).values_list("name", flat=True))
            if any(may_see_keys(request, direction) for direction in DIRECTIONS)
            else ()
        ),
        "searched": [_names(model) for model in _permitted(request)],
    }
    return TemplateResponse(request, "admin/msh/framework/search.html", context)


def _permitted(request: HttpRequest) -> list[type[Model]]:
    return [model for model in SEARCHED if _page(model).has_view_permission(request)]


def _page(model: type[Model]) -> Any:
    return admin.site.get_model_admin(model)


def _rows(request: HttpRequest, model: type[Model], term: str) -> list[Any]:
    page = _page(model)
    found, may_repeat = page.get_search_results(request, page.get_queryset(request), term)
    return list((found.distinct() if may_repeat else found)[:ROWS])


def _table(model: type[Model], rows: list[Any], term: str) -> Table:
    cells = [(markup.link_to(row), _about(row)) for row in rows]
    more = markup.list_url(model, q=term) if len(rows) == ROWS else ""
    return Table(_names(model), ("Name", "State"), cells, "", more)


def _about(row: Any) -> str:
    has_state = hasattr(row, "get_state_display")
    return markup.state_badge(row) if has_state else markup.DASH


def _names(model: type[Model]) -> str:
    return capfirst(str(model._meta.verbose_name_plural))  # noqa: SLF001  public


def _url(row: Model) -> str:
    is_partner = isinstance(row, Partner)
    return reverse("partner_page", args=[row.pk]) if is_partner else markup.page_url(row)
