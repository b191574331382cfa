"""What the pages of the console share: they are read-only, and they never count millions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.admin import ShowFacets
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.paginator import InfinitePaginator

from . import markup
from .actions import ActionsAdmin


@dataclass(frozen=True, slots=True)
class Table:
    """`rows` hold a cell for each of `headers`; `empty` is said where there are none.
    `more` is the address of the whole, where these are only the first rows."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]
    empty: str
    more: str = ""


class ReadOnlyAdmin(ActionsAdmin):
    """Rows that `msh.store` alone writes: to be looked at, and changed by verbs only."""

    actions: Sequence[str] | None = None
    actions_detail_hide_default = True  # the log of changes made in the admin: there are none
    compressed_fields = True
    list_fullwidth = True
    list_per_page = 50
    show_facets = ShowFacets.NEVER
    change_form_outer_before_template = "admin/msh/framework/actions.html"
    change_form_outer_after_template: str | None = "admin/msh/framework/tables.html"

    def tables(self, request: HttpRequest, row: Any) -> list[Table]:
        """What stands below the fields of one row."""
        return []

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = context["original"]
        name = str(self.opts.verbose_name)
        title = f"{name[:1].upper()}{name[1:]} {markup.escape_invisible(str(row))}"
        context |= {"title": title, "subtitle": None, "tables": self.tables(request, row)}
        context["offers"] = self.offers(request, row)
        response: HttpResponse = super().render_change_form(request, context, *args, **kwargs)
        return response

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class LargeTableAdmin(ReadOnlyAdmin):
    """A table of millions of rows: pages forward and back, no COUNT(*), the newest first."""

    paginator = InfinitePaginator
    show_full_result_count = False
    ordering = ("-pk",)
    sortable_by = ()

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """The whole term is the value of a field: an id may have blanks in it."""
        term = search_term.strip()
        return (self.search(queryset, term) if term else queryset), False

    def search(self, rows: Any, term: str) -> QuerySet[Any]:
        """Those with this value in one of `search_fields`."""
        found: QuerySet[Any] = rows.filter(
            Q(*((name, term) for name in self.search_fields), _connector=Q.OR)
        )
        return found
