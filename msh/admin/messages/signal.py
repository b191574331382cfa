"""Acknowledgements and Errors: those still to be sent, and those transmitted."""

from typing import cast

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import (
    ChoicesDropdownFilter,
    DropdownFilter,
    RelatedDropdownFilter,
)
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.pages import LargeTableAdmin
from msh.models import Signal
from msh.models.signal import SignalQuerySet


class PendingFilter(DropdownFilter):
    title = "state"
    parameter_name = "is"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [("pending", "Pending"), ("sent", "Nothing pending")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Signal]) -> QuerySet[Signal]:
        match self.value():
            case "pending":
                return queryset.filter(pending__gt=0)
            case "sent":
                return queryset.filter(pending=0)
        return queryset


@admin.register(Signal)
class SignalAdmin(LargeTableAdmin[Signal]):
    list_display = (
        "kind",
        "partner",
        "about",
        "code",
        "pending",
        "transmitted",
        "tries",
        "next_try",
        "last_answer",
    )
    list_filter = (
        PendingFilter,
        ("kind", ChoicesDropdownFilter),
        ("link__partner", RelatedDropdownFilter),
        ("code", ChoicesDropdownFilter),
    )
    search_fields = ("ref_to_message_id",)
    search_help_text = "Complete RefToMessageId"
    fields = (
        ("kind", "partner"),
        ("about", "sequence_number"),
        ("tpa_id", "conversation_id"),
        ("code", "location"),
        "description",
        ("pending", "transmitted"),
        ("tries", "min_retry_secs"),
        ("first_at", "expires_at"),
        ("due", "last_answer"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Signal]:
        signals: QuerySet[Signal] = super().get_queryset(request)
        return signals.select_related("link__partner").defer("body")

    def search(self, request: HttpRequest, rows: QuerySet[Signal], term: str) -> QuerySet[Signal]:
        return cast("SignalQuerySet", rows).with_ref(term)

    @display(description="Partner")
    def partner(self, signal: Signal) -> str:
        return markup.link_to(signal.link, signal.link.partner)

    @display(description="RefToMessageId")
    def about(self, signal: Signal) -> str:
        return markup.trace_link(signal.ref_to_message_id)

    @display(description="Next try")
    def next_try(self, signal: Signal) -> str:
        return markup.time_of(signal.due) if signal.pending else markup.DASH

    @display(description="Last response")
    def last_answer(self, signal: Signal) -> str:
        return markup.verbatim(signal.last_detail)
