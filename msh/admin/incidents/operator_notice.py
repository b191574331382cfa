"""Calls to operators: who was told what, and what has not come through."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.pages import LargeTableAdmin, Table
from msh.models import Incident, OperatorNotice


class NotifiedFilter(DropdownFilter):
    title = "told or not"
    parameter_name = "is"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("waiting", "Not told yet"), ("told", "Told"), ("given-up", "Given up")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        match self.value():
            case "waiting":
                return queryset.filter(told_at=None, given_up=False)
            case "told":
                return queryset.filter(told_at__isnull=False)
            case "given-up":
                return queryset.filter(given_up=True)
        return queryset


@admin.register(OperatorNotice)
class OperatorNoticeAdmin(LargeTableAdmin):
    list_display = ("kind", "partner", "message", "channel", "status", "tries", "since", "problem")
    list_filter = (NotifiedFilter, ("channel", ChoicesDropdownFilter))
    list_select_related = ("partner",)
    fields = (
        ("kind", "partner"),
        ("message", "channel"),
        "detail",
        ("at", "told_at"),
        ("status", "tries"),
        ("due", "problem"),
    )

    @display(description="MessageId")
    def message(self, notice: OperatorNotice) -> str:
        return markup.trace_link(notice.message_id)

    @display(description="State")
    def status(self, notice: OperatorNotice) -> str:
        return _status(notice)

    @display(description="Since")
    def since(self, notice: OperatorNotice) -> str:
        return markup.time_and_age(notice.at)

    @display(description="Last problem")
    def problem(self, notice: OperatorNotice) -> str:
        return markup.verbatim(notice.error)


def calls_about(incident: Incident) -> Table:
    """Who was called about an incident."""
    rows = [
        (
            notice.get_channel_display(),
            _status(notice),
            markup.time_of(notice.told_at),
            notice.tries,
            markup.verbatim(notice.error),
        )
        for notice in incident.notices.order_by("channel")
    ]
    headers = ("By", "State", "At", "Tries", "Last problem")
    return Table("Calls to operators", headers, rows, "Nobody was called: no address is set.")


def _status(notice: OperatorNotice) -> str:
    if notice.told_at:
        return markup.badge("told", "success")
    return (
        markup.badge("given up", "danger") if notice.given_up else markup.badge("waiting", "info")
    )
