"""Filters of lists: a limit of time, and what only an address names."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import (
    AutocompleteSelectFilter,
    ChoicesDropdownFilter,
    DropdownFilter,
    TextFilter,
)
from unfold.widgets import UnfoldAdminTextInputWidget

from .time_zone import aware

Rows = TypeVar("Rows", bound=QuerySet[Any])


def no_rows(request: HttpRequest, queryset: Rows, why: str) -> Rows:
    messages.error(request, f"No search performed: {why}")
    return queryset.none()


_DATE = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?)?"
_AGO = re.compile(r"(\d{1,5}) ?(min|h|d) ago")
_DAY = re.compile(r"(today|yesterday)(?: (\d{2}:\d{2}))?")
_EXAMPLES = "2026-11-21 14:05, 8 h ago, today, yesterday 18:00"
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def moment(text: str, now: datetime) -> datetime:
    """The time that `text` names, as one of _EXAMPLES. What is relative stays so in a saved filter.
    Raises ValueError with a sentence."""
    if ago := _AGO.fullmatch(text):
        return now - int(ago[1]) * _UNITS[ago[2]]
    if day := _DAY.fullmatch(text):
        date = timezone.localtime(now).date() - timedelta(days=day[1] == "yesterday")
        text = f"{date} {day[2] or '00:00'}"
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text} is not a time (examples: {_EXAMPLES}).") from None
    return at if at.tzinfo else aware(at)


class DateTimeForm(forms.Form):
    """A text of 24 hours: the browser's own field shows the hours of its own language."""

    def __init__(self, name: str, label: str, data: Mapping[str, str | None]) -> None:
        super().__init__(data)
        pattern = f"{_DATE}|{_AGO.pattern}|{_DAY.pattern}"
        attrs = {"placeholder": "2026-11-21 14:05", "pattern": pattern, "list": "msh-moments"}
        attrs["title"] = f"A time, such as {_EXAMPLES}"
        widget = UnfoldAdminTextInputWidget(attrs=attrs)
        self.fields[name] = forms.CharField(label=label, required=False, widget=widget)


class DateTimeFilter(TextFilter):
    """One limit of a period, in the time zone of the console."""

    form_class = DateTimeForm

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = (self.value() or "").strip()
        if not value:
            return queryset
        try:
            return self.bounded(queryset, moment(value, timezone.now()))
        except ValueError as why:
            return no_rows(request, queryset, str(why))

    def bounded(self, queryset: Any, at: datetime) -> Any:
        raise NotImplementedError

    def choices(self, changelist: object) -> Iterator[dict[str, object]]:
        name = self.parameter_name
        zone = timezone.get_current_timezone_name()
        label = f"{self.title} ({zone})"
        yield {"form": self.form_class(name=name, label=label, data={name: self.value()})}


class PartnerFilter(AutocompleteSelectFilter):
    """Found by a part of its name: a list of all partners would be most of the page."""

    def value(self) -> str:
        key = super().value() or ""
        return key if key.isdecimal() else ""

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        key = self.value()
        if not key and (entered := super().value()):
            return no_rows(request, queryset, f"{entered} is not the id of a partner.")
        return self.of_partner(queryset, int(key)) if key else queryset

    def of_partner(self, queryset: Any, key: int) -> Any:
        return queryset.filter(**{self.field_path: key})


class WordsFilter(ChoicesDropdownFilter):
    """The values of a field, in words that begin with a capital."""

    label = ""

    def values(self, changelist: Any) -> Iterable[tuple[str, str]]:
        known: Iterable[tuple[str, str]] = self.field.flatchoices
        return known

    def choices(self, changelist: Any) -> Iterator[dict[str, object]]:
        name = self.lookup_kwarg
        found = [(value, _capitalised(text)) for value, text in self.values(changelist)]
        choices, data = [self.all_option, *found], {name: self.value()}
        label = self.label or f"By {self.title}"
        yield {"form": self.form_class(label=label, name=name, choices=choices, data=data)}


def _capitalised(text: str) -> str:
    words = text.replace("_", " ")
    words = words.lower() if words.isupper() else words
    return f"{words[:1].upper()}{words[1:]}"


class GivenFilter(DropdownFilter):
    """Shown only where the address has it: a page leads to these rows."""

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        given = request.GET.get(str(self.parameter_name), "")
        return [(given, given)] if given else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return self.given(queryset, value) if value else queryset

    def given(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        raise NotImplementedError
