"""Filters of a list: those without a value, and those that are kept under a name, for oneself or
for all who may view the list."""

from collections.abc import Mapping
from dataclasses import dataclass

from django import forms
from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import IGNORED_PARAMS
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.views.decorators.http import require_POST
from unfold.admin import ModelAdmin
from unfold.views import ChangeList

from msh.models import SavedFilter
from msh.models.saved_filter import PER_LIST, QUERY_LIMIT


class _Form(forms.Form):
    name = forms.CharField(max_length=60)
    shared = forms.BooleanField(required=False)


@dataclass(frozen=True, slots=True)
class Shown:
    """A saved filter, as this user sees it. `here`: the list is filtered by it now."""

    row: SavedFilter
    here: bool
    removable: bool


class FilteredList(ChangeList):
    """A filter without a value is none: Django would look for rows that have the empty value."""

    def get_filters_params(
        self, params: Mapping[str, list[str]] | None = None
    ) -> dict[str, list[str]]:
        found: dict[str, list[str]] = super().get_filters_params(params)
        return {name: values for name, values in found.items() if any(values)}


class SavedFilters(ModelAdmin):
    list_before_template = "admin/msh/framework/saved_filters.html"
    # Unfold asks for it at each row. Where it is missing, Django's templates look through the names
    # of everything that this class has.
    list_sections: tuple[()] = ()

    def get_changelist(self, request: HttpRequest, **options: object) -> type[ChangeList]:
        return FilteredList

    def get_urls(self) -> list[URLPattern]:
        save, remove = (
            self.admin_site.admin_view(require_POST(view))
            for view in (self._save_filter, self._remove_filter)
        )
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("filters/", save, name=f"{name}_save_filter"),
            path("filters/<int:key>/remove/", remove, name=f"{name}_remove_filter"),
            *super().get_urls(),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        context = {**self.saved_filters(request), **(extra_context or {})}
        response: HttpResponse = super().changelist_view(request, context)
        return response

    def saved_filters(self, request: HttpRequest) -> dict[str, object]:
        """Return the context of the template above a list."""
        query = self._query_of(request)
        user = request.user.pk
        seen = SavedFilter.objects.seen_by(user, self.opts.db_table).select_related("owner")
        shown = [Shown(row, row.query == query, self._may_remove(request, row)) for row in seen]
        may_save = bool(query) and not any(one.here for one in shown)
        return {"saved_filters": shown, "may_save_filter": may_save}

    def _save_filter(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        query, form = self._query_of(request), _Form(request.POST)
        back = HttpResponseRedirect(f"../?{query}")
        mine = SavedFilter.objects.filter(owner=request.user.pk, of_list=self.opts.db_table)
        if not form.is_valid():
            messages.error(request, "Not saved: give the filter a name of at most 60 characters.")
        elif not query or len(query) > QUERY_LIMIT or not self._is_valid(request):
            messages.error(request, "Not saved: the list has no valid filter.")
        elif mine.count() >= PER_LIST:
            messages.error(request, f"Not saved: you have {PER_LIST} filters of this list.")
        else:
            name, shared = form.cleaned_data["name"], form.cleaned_data["shared"]
            mine.update_or_create(
                name=name,
                defaults={"query": query, "shared": shared},
                create_defaults={
                    "owner_id": request.user.pk or 0, "of_list": self.opts.db_table, "query": query,
                    "shared": shared,
                },
            )  # fmt: skip
            messages.success(request, f"Filter {name} is saved.")
        return back

    def _remove_filter(self, request: HttpRequest, key: int) -> HttpResponse:
        seen = SavedFilter.objects.seen_by(request.user.pk, self.opts.db_table)
        row = seen.filter(pk=key).first()
        if row is None:
            raise Http404("There is no such filter.")
        if not self._may_remove(request, row):
            raise PermissionDenied
        row.delete()
        messages.success(request, f"Filter {row.name} is removed.")
        return HttpResponseRedirect("../../../")

    def _may_remove(self, request: HttpRequest, row: SavedFilter) -> bool:
        return row.owner_id == request.user.pk or request.user.has_perm("msh.delete_savedfilter")

    def _is_valid(self, request: HttpRequest) -> bool:
        try:
            self.get_changelist_instance(request)
        except IncorrectLookupParameters:
            return False
        return True

    def _query_of(self, request: HttpRequest) -> str:
        """The filters of the list without its page, those that say nothing left out."""
        query = request.GET.copy()
        for name in list(query):
            if name in (*IGNORED_PARAMS, "p") or not any(query.getlist(name)):
                del query[name]
        return query.urlencode()
