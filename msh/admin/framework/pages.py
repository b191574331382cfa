"""Base classes of pages: read-only, and without COUNT(*) on large tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django.contrib.admin import ShowFacets
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import SimpleTemplateResponse
from unfold.paginator import InfinitePaginator

from msh.store.snapshot import snapshot

from . import markup
from .actions import ActionsAdmin, Row
from .export import ExportPage
from .saved_filters import SavedFilters
from .second_person import asked_about


@dataclass(frozen=True, slots=True)
class Table:
    """A table below the fields of a page, shown by `framework/tables.html`.

    `rows` have a cell for each of `headers`; `empty` is shown instead if there are none. `more` is
    the URL of the complete list. With `folded` its rows are shown when it is opened.
    """

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    empty: str
    more: str = ""
    folded: bool = False


class ReadOnlyAdmin(ExportPage, SavedFilters, ActionsAdmin[Row]):
    """Rows that only `msh.store` writes; here they change by operator actions only."""

    actions: Sequence[str] | None = None
    actions_detail_hide_default = True  # Django's log of changes made in the admin is empty
    compressed_fields = True
    list_fullwidth = True
    list_per_page = 50
    show_facets = ShowFacets.NEVER
    list_after_template = "admin/msh/framework/list_tools.html"
    change_form_outer_before_template = "admin/msh/framework/actions.html"
    change_form_outer_after_template: str | None = "admin/msh/framework/tables.html"

    without_fields = False
    """The page has its head and its tables only."""

    def get_fieldsets(self, request: HttpRequest, obj: Row | None = None) -> Any:
        return [] if self.without_fields else super().get_fieldsets(request, obj)

    def tables(self, request: HttpRequest, row: Row) -> list[Table]:
        return []

    def page_context(self, request: HttpRequest, row: Row) -> dict[str, object]:
        """Additional context for the templates of this page."""
        return {}

    def render_change_form(
        self, request: HttpRequest, context: dict[str, object], *args: object, **kwargs: object
    ) -> HttpResponse:
        row = cast("Row", context["original"])
        name = str(self.opts.verbose_name)
        title = f"{name[:1].upper()}{name[1:]} {markup.escape_invisible(str(row))}"
        context |= {"title": title, "subtitle": None, "tables": self.tables(request, row)}
        context |= {"offers": self.offers(request, row), "asked": asked_about(row)}
        context["withheld"] = self.withheld(request, row)
        context |= self.page_context(request, row)
        response: HttpResponse = super().render_change_form(request, context, *args, **kwargs)
        return response

    def change_view(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        return at_once(request, super().change_view, *args, **kwargs)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return at_once(request, super().changelist_view, *args, **kwargs)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def at_once(
    request: HttpRequest, view: Callable[..., HttpResponse], *args: object, **kwargs: object
) -> HttpResponse:
    """All facts of a page from one moment: what a template reads, too."""
    if request.method != "GET":
        return view(request, *args, **kwargs)
    with snapshot():
        response = view(request, *args, **kwargs)
        return response.render() if isinstance(response, SimpleTemplateResponse) else response


class LargeTableAdmin(ReadOnlyAdmin[Row]):
    """Lists of tables with millions of rows: newest first, next and previous page only."""

    paginator = InfinitePaginator
    show_full_result_count = False
    ordering = ("-pk",)
    sortable_by = ()

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Row], search_term: str
    ) -> tuple[QuerySet[Row], bool]:
        """The term is not split: an id may contain blanks."""
        term = search_term.strip()
        return (self.search(request, queryset, term) if term else queryset), False

    def search(self, request: HttpRequest, rows: QuerySet[Row], term: str) -> QuerySet[Row]:
        """The rows with exactly this value in one of `search_fields`."""
        return rows.filter(Q(*((name, term) for name in self.search_fields), _connector=Q.OR))
