"""Filters of the lists of messages. An index serves each of them (`MessageQuerySet`)."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import (
    AutocompleteSelectFilter,
    ChoicesDropdownFilter,
    TextFilter,
)
from unfold.widgets import UnfoldAdminTextInputWidget

from msh.admin.framework.time_zone import aware
from msh.models import SHOWN_STATES, InboundMessage, InboundState, OutboundMessage
from msh.models.inbound import InboundMessageQuerySet
from msh.models.outbound import OutboundMessageQuerySet

Messages = OutboundMessageQuerySet | InboundMessageQuerySet


def _no_rows(request: HttpRequest, queryset: Messages, why: str) -> Messages:
    messages.error(request, f"No search performed: {why}")
    return queryset.none()


_STATES = {OutboundMessage: SHOWN_STATES, InboundMessage: InboundState.choices}


class StateFilter(ChoicesDropdownFilter):
    """By the states that are shown."""

    def choices(self, changelist: Any) -> Iterator[dict[str, object]]:
        name = self.lookup_kwarg
        choices = [self.all_option, *_STATES[changelist.model]]
        label = f"By {self.title}"
        data = {name: self.value()}
        yield {"form": self.form_class(label=label, name=name, choices=choices, data=data)}

    def queryset(self, request: HttpRequest, queryset: Messages) -> Messages:
        state = self.value()
        return queryset.in_state(state) if state else queryset


class PartnerFilter(AutocompleteSelectFilter):
    def value(self) -> str:
        key = super().value() or ""
        return key if key.isdecimal() else ""

    def queryset(self, request: HttpRequest, queryset: Messages) -> Messages:
        key = self.value()
        if not key and (entered := super().value()):
            return _no_rows(request, queryset, f"{entered} is not the id of a partner.")
        return queryset.of_partner(int(key)) if key else queryset


class TpaFilter(TextFilter):
    title = "TPAId"
    parameter_name = "tpa_id"

    def queryset(self, request: HttpRequest, queryset: Messages) -> Messages:
        value = (self.value() or "").strip()
        return queryset.under_tpa(value) if value else queryset


class NumberFilter(TextFilter):
    title = "SequenceNumber"
    parameter_name = "number"

    def queryset(self, request: HttpRequest, queryset: Messages) -> Messages:
        value = (self.value() or "").strip()
        if not value:
            return queryset
        if not (value.isascii() and value.isdecimal() and len(value) <= 9):
            return _no_rows(request, queryset, f"{value} is not a SequenceNumber (1 to 999999999).")
        return queryset.numbered(int(value))


_PATTERN = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?)?"
_EXAMPLE = "Date and time, such as 2026-11-21 14:05"


class DateTimeForm(forms.Form):
    """A text of 24 hours: the browser's own field shows the hours of its own language."""

    def __init__(self, name: str, label: str, data: Mapping[str, str | None]) -> None:
        super().__init__(data)
        attrs = {"placeholder": "2026-11-21 14:05", "pattern": _PATTERN, "title": _EXAMPLE}
        widget = UnfoldAdminTextInputWidget(attrs=attrs)
        self.fields[name] = forms.CharField(label=label, required=False, widget=widget)


class DateTimeFilter(TextFilter):
    """One limit of a period, in the time zone of the console."""

    form_class = DateTimeForm

    def queryset(self, request: HttpRequest, queryset: Messages) -> Messages:
        value = (self.value() or "").strip()
        if not value:
            return queryset
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return _no_rows(
                request, queryset, f"{value} is not a time (example: 2026-11-21 14:05)."
            )
        try:
            return self.bounded(queryset, at if at.tzinfo else aware(at))
        except ValueError as why:
            return _no_rows(request, queryset, str(why))

    def bounded(self, queryset: Messages, at: datetime) -> Messages:
        raise NotImplementedError

    def choices(self, changelist: object) -> Iterator[dict[str, object]]:
        name = self.parameter_name
        zone = timezone.get_current_timezone_name()
        label = f"{self.title} ({zone})"
        yield {"form": self.form_class(name=name, label=label, data={name: self.value()})}


class SinceFilter(DateTimeFilter):
    title = "Since"
    parameter_name = "since"

    def bounded(self, queryset: Messages, at: datetime) -> Messages:
        return queryset.since(at)


class UntilFilter(DateTimeFilter):
    title = "Until"
    parameter_name = "until"

    def bounded(self, queryset: Messages, at: datetime) -> Messages:
        return queryset.until(at)


SEARCH_FILTERS = (
    ("state", StateFilter),
    ("link__partner", PartnerFilter),
    TpaFilter,
    NumberFilter,
    SinceFilter,
    UntilFilter,
)
