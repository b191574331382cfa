"""The search over everything by id: each list is asked as its own search box would ask it."""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import Model, Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import capfirst

from msh.flows.operations.inspection.causes import CAUSES
from msh.models import (
    ApiToken,
    Consumer,
    Delivery,
    InboundConversation,
    InboundMessage,
    Incident,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
    Signal,
)
from msh.protocol.lane import LaneState
from msh.roles import role_with
from partners.models import Agreement, Partner

from . import markup
from .found_by import key_names
from .pages import Table

ROWS = 10
"""Rows of each list that are shown."""
LONGEST = 500
SEARCHED: tuple[type[Model], ...] = (
    *(Partner, OutboundMessage, InboundMessage, Delivery, Incident, Agreement),
    *(OutboundConversation, InboundConversation, Signal, Consumer, ApiToken),
)


def search(request: HttpRequest) -> HttpResponse:
    """Redirect to the object if there is exactly one hit."""
    term = request.GET.get("q", "").strip()[:LONGEST]
    if partner := _partner_named(request, term):
        return HttpResponseRedirect(_url(partner))
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
        "keys": sorted(key_names(request)),
        "searched": [_names(model) for model in _permitted(request)],
        "others": list(_others(request)),
    }
    return TemplateResponse(request, "admin/msh/framework/search.html", context)


def _permitted(request: HttpRequest) -> list[type[Model]]:
    return [model for model in SEARCHED if _page(model).has_view_permission(request)]


def _others(request: HttpRequest) -> Iterator[str]:
    """Yield what this user may not see, with the role that may see it."""
    permitted = _permitted(request)
    for model in SEARCHED:
        if model not in permitted:
            meta = model._meta  # noqa: SLF001  public
            role = role_with([f"{meta.app_label}.view_{meta.model_name}"])
            yield f"{_names(model)} (role {role})" if role else _names(model)


def _partner_named(request: HttpRequest, term: str) -> Partner | None:
    """The only one with exactly this name, whatever else has it in its text."""
    if not term or not _page(Partner).has_view_permission(request):
        return None
    named = Partner.objects.filter(Q(name__iexact=term) | Q(display_name__iexact=term))[:2]
    return named[0] if len(named) == 1 else None


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
    if isinstance(row, Partner):
        return _about_partner(row)
    if isinstance(row, Incident):
        words = f"{CAUSES[row.kind].title}: {row.partner}"
        state = markup.badge("resolved") if row.resolved_at else markup.badge("open", "danger")
        return format_html("{} {}", state, markup.in_words(words))
    has_state = hasattr(row, "get_state_display")
    return markup.state_badge(row) if has_state else markup.DASH


def _about_partner(partner: Partner) -> str:
    """Return the state of the link to this partner."""
    link = OutboundLink.objects.filter(partner=partner).first()
    if link is None:
        return markup.badge("no link yet")
    if link.state == LaneState.WAITING and link.retries_spent:
        return markup.badge("retrying", "warning")
    calm = link.state in (LaneState.IDLE, LaneState.WAITING)
    return markup.badge("working", "success") if calm else markup.state_badge(link)


def _names(model: type[Model]) -> str:
    return capfirst(str(model._meta.verbose_name_plural))  # noqa: SLF001  public


def _url(row: Model) -> str:
    is_partner = isinstance(row, Partner)
    return reverse("partner_page", args=[row.pk]) if is_partner else markup.page_url(row)
