"""Filters of the lists of messages. An index serves each of them (`MessageQuerySet`)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from unfold.contrib.filters.admin import TextFilter

from msh.admin.framework.filters import DateTimeFilter, PartnerFilter, WordsFilter, no_rows
from msh.models import SHOWN_STATES, InboundMessage, InboundState, OutboundMessage
from msh.models.inbound import InboundMessageQuerySet
from msh.models.outbound import OutboundMessageQuerySet

Messages = OutboundMessageQuerySet | InboundMessageQuerySet


_STATES = {OutboundMessage: SHOWN_STATES, InboundMessage: InboundState.choices}


class StateFilter(WordsFilter):
    """By the states that are shown."""

    def values(self, changelist: Any) -> Iterable[tuple[str, str]]:
        return _STATES[changelist.model]

    def queryset(self, request: HttpRequest, queryset: Messages) -> Messages:
        state = self.value()
        return queryset.in_state(state) if state else queryset


class LinkPartnerFilter(PartnerFilter):
    def of_partner(self, queryset: Messages, key: int) -> Messages:
        return queryset.of_partner(key)


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
            return no_rows(request, queryset, f"{value} is not a SequenceNumber (1 to 999999999).")
        return queryset.numbered(int(value))


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
    ("link__partner", LinkPartnerFilter),
    TpaFilter,
    NumberFilter,
    SinceFilter,
    UntilFilter,
)
