"""Notifications to operators: which were sent, and which could not be sent."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.pages import LargeTableAdmin, Table
from msh.models import Incident, OperatorNotice


class NoticeStateFilter(DropdownFilter):
    title = "state"
    parameter_name = "is"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [("pending", "Pending"), ("sent", "Sent"), ("given-up", "Given up")]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[OperatorNotice]
    ) -> QuerySet[OperatorNotice]:
        match self.value():
            case "pending":
                return queryset.filter(sent_at=None, given_up=False)
            case "sent":
                return queryset.filter(sent_at__isnull=False)
            case "given-up":
                return queryset.filter(given_up=True)
        return queryset


@admin.register(OperatorNotice)
class OperatorNoticeAdmin(LargeTableAdmin[OperatorNotice]):
    list_display = ("kind", "partner", "message", "channel", "status", "tries", "since", "problem")
    list_filter = (NoticeStateFilter, ("channel", ChoicesDropdownFilter))
    list_select_related = ("partner",)
    fields = (
        ("kind", "partner"),
        ("message", "channel"),
        "detail",
        ("at", "sent"),
        ("status", "tries"),
        ("due", "problem"),
    )

    @display(description="MessageId")
    def message(self, notice: OperatorNotice) -> str:
        return markup.trace_link(notice.message_id)

    @display(description="State")
    def status(self, notice: OperatorNotice) -> str:
        return _status(notice)

    @display(description="Sent")
    def sent(self, notice: OperatorNotice) -> str:
        return markup.time_of(notice.sent_at)

    @display(description="Since")
    def since(self, notice: OperatorNotice) -> str:
        return markup.time_and_age(notice.at)

    @display(description="Last error")
    def problem(self, notice: OperatorNotice) -> str:
        return markup.verbatim(notice.error)


def notices_about(incident: Incident) -> Table:
    rows = [
        (
            notice.get_channel_display(),
            _status(notice),
            markup.time_of(notice.sent_at),
            notice.tries,
            markup.verbatim(notice.error),
        )
        for notice in incident.notices.order_by("channel")
    ]
    headers = ("Channel", "State", "Sent", "Tries", "Last error")
    return Table("Operator notifications", headers, rows, "None: no recipient is configured.")


def _status(notice: OperatorNotice) -> str:
    if notice.sent_at:
        return markup.badge("sent", "success")
    return (
        markup.badge("given up", "danger") if notice.given_up else markup.badge("pending", "info")
    )
