"""What messages are searched by. Each filter names rows that an index finds (`MessageQuerySet`)."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django import forms
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import (
    AutocompleteSelectFilter,
    ChoicesDropdownFilter,
    TextFilter,
)
from unfold.widgets import UnfoldAdminTextInputWidget

from msh.protocol import sequence

Messages = QuerySet[Any]


class StateFilter(ChoicesDropdownFilter):
    def queryset(self, request: HttpRequest, queryset: Any) -> Messages:
        state = self.value()
        found: Messages = queryset.in_state(state) if state else queryset
        return found


class PartnerFilter(AutocompleteSelectFilter):
    def queryset(self, request: HttpRequest, queryset: Any) -> Messages:
        key = self.value()
        if key and not key.isdecimal():
            raise IncorrectLookupParameters
        found: Messages = queryset.of_partner(int(key)) if key else queryset
        return found


class TpaFilter(TextFilter):
    title = "TPAId"
    parameter_name = "tpa_id"

    def queryset(self, request: HttpRequest, queryset: Any) -> Messages:
        value = (self.value() or "").strip()
        found: Messages = queryset.under_tpa(value) if value else queryset
        return found


class NumberFilter(TextFilter):
    title = "SequenceNumber"
    parameter_name = "number"

    def queryset(self, request: HttpRequest, queryset: Any) -> Messages:
        value = (self.value() or "").strip()
        if not value:
            return queryset  # type: ignore[no-any-return]
        if not (value.isascii() and value.isdecimal() and int(value) <= sequence.LAST):
            return queryset.none()  # type: ignore[no-any-return]
        return queryset.numbered(int(value))  # type: ignore[no-any-return]


class MomentForm(forms.Form):
    """The browser's own field for a date and a time: no script, any keyboard, any width."""

    def __init__(self, name: str, label: str, **options: Any) -> None:
        super().__init__(**options)
        attrs = {"type": "datetime-local", "step": "1"}
        widget = UnfoldAdminTextInputWidget(attrs=attrs)
        self.fields[name] = forms.CharField(label=label, required=False, widget=widget)


class MomentFilter(TextFilter):
    """A bound of `field`, in the time zone of the console."""

    form_class = MomentForm
    field = ""
    lookup = ""

    def queryset(self, request: HttpRequest, queryset: Messages) -> Messages:
        value = (self.value() or "").strip()
        if not value:
            return queryset
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            raise IncorrectLookupParameters from None
        aware = at if at.tzinfo else timezone.make_aware(at)
        return queryset.filter(**{f"{self.field}__{self.lookup}": aware})

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        name = self.parameter_name
        form = self.form_class(name=name, label=self.title, data={name: self.value()})
        yield {"form": form}


def moments(field: str, what: str) -> tuple[type[MomentFilter], type[MomentFilter]]:
    """Filters for rows whose `field` is between two times."""
    zone = timezone.get_default_timezone_name()
    bounds = (("since", "gte"), ("until", "lte"))
    since, until = (
        type(
            f"{name.capitalize()}Filter",
            (MomentFilter,),
            {
                "title": f"{what} {name} ({zone})",
                "parameter_name": name,
                "field": field,
                "lookup": lookup,
            },
        )
        for name, lookup in bounds
    )
    return since, until
