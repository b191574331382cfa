"""Filters of the lists of messages. An index serves each of them (`MessageQuerySet`)."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import (
    AutocompleteSelectFilter,
    ChoicesDropdownFilter,
    TextFilter,
)
from unfold.widgets import UnfoldAdminTextInputWidget

Messages = QuerySet[Any]


def _no_rows(request: HttpRequest, queryset: Messages, why: str) -> Messages:
    messages.error(request, f"No search performed: {why}")
    return queryset.none()


class StateFilter(ChoicesDropdownFilter):
    def queryset(self, request: HttpRequest, queryset: Any) -> Messages:
        state = self.value()
        found: Messages = queryset.in_state(state) if state else queryset
        return found


class PartnerFilter(AutocompleteSelectFilter):
    def value(self) -> str:
        key = super().value() or ""
        return key if key.isdecimal() else ""

    def queryset(self, request: HttpRequest, queryset: Any) -> Messages:
        key = self.value()
        if not key and (entered := super().value()):
            return _no_rows(request, queryset, f"{entered} is not the id of a partner.")
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
        if not (value.isascii() and value.isdecimal() and len(value) <= 9):
            return _no_rows(request, queryset, f"{value} is not a SequenceNumber (1 to 999999999).")
        return queryset.numbered(int(value))  # type: ignore[no-any-return]


class DateTimeForm(forms.Form):
    """The browser's own field for date and time: it needs no script and works by keyboard."""

    def __init__(self, name: str, label: str, **options: Any) -> None:
        super().__init__(**options)
        attrs = {"type": "datetime-local", "step": "1"}
        widget = UnfoldAdminTextInputWidget(attrs=attrs)
        self.fields[name] = forms.CharField(label=label, required=False, widget=widget)


class DateTimeFilter(TextFilter):
    """One limit of a period, in the time zone of the console."""

    form_class = DateTimeForm

    def queryset(self, request: HttpRequest, queryset: Any) -> Messages:
        value = (self.value() or "").strip()
        if not value:
            return queryset  # type: ignore[no-any-return]
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return _no_rows(
                request, queryset, f"{value} is not a time (example: 2026-11-21T14:05:00)."
            )
        return self.bounded(queryset, at if at.tzinfo else timezone.make_aware(at))

    def bounded(self, queryset: Any, at: datetime) -> Messages:
        raise NotImplementedError

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        name = self.parameter_name
        zone = timezone.get_default_timezone_name()
        label = f"{self.title} ({zone})"
        yield {"form": self.form_class(name=name, label=label, data={name: self.value()})}


class SinceFilter(DateTimeFilter):
    title = "Since"
    parameter_name = "since"

    def bounded(self, queryset: Any, at: datetime) -> Messages:
        found: Messages = queryset.since(at)
        return found


class UntilFilter(DateTimeFilter):
    title = "Until"
    parameter_name = "until"

    def bounded(self, queryset: Any, at: datetime) -> Messages:
        found: Messages = queryset.until(at)
        return found


SEARCH_FILTERS = (
    ("state", StateFilter),
    ("link__partner", PartnerFilter),
    TpaFilter,
    NumberFilter,
    SinceFilter,
    UntilFilter,
)
