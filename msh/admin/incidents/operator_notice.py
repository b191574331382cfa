"""Notifications to operators: which were sent, and which could not be sent."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.pages import LargeTableAdmin, Table
from msh.models import Incident, OperatorNotice
from msh.protocol.alerts.severity import Severity


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
    list_display = (
        *("kind", "level", "partner", "message", "whom", "status", "tries", "since", "problem"),
    )
    list_filter = (
        NoticeStateFilter,
        ("channel", ChoicesDropdownFilter),
        ("severity", ChoicesDropdownFilter),
    )
    search_fields = ("to",)
    search_help_text = "Name of the recipient"
    list_select_related = ("partner",)
    fields = (
        ("kind", "partner"),
        ("message", "level"),
        ("whom", "channel"),
        "detail",
        ("at", "sent"),
        ("status", "tries"),
        ("due", "problem"),
    )

    @display(description="MessageId")
    def message(self, notice: OperatorNotice) -> str:
        return markup.trace_link(notice.message_id)

    @display(description="Severity")
    def level(self, notice: OperatorNotice) -> str:
        return severity_badge(notice.severity)

    @display(description="To")
    def whom(self, notice: OperatorNotice) -> str:
        return _whom(notice)

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
            _whom(notice),
            _status(notice),
            markup.time_of(notice.sent_at),
            notice.tries,
            markup.verbatim(notice.error),
        )
        for notice in incident.notices.order_by("pk")
    ]
    headers = ("To", "State", "Sent", "Tries", "Last error")
    return Table("Operator notifications", headers, rows, "None: no recipient is configured.")


def severity_badge(severity: str) -> str:
    variants = {Severity.CRITICAL: "danger", Severity.WARNING: "warning"}
    return markup.badge(severity, variants.get(Severity(severity), "info"))


def _whom(notice: OperatorNotice) -> str:
    """The recipient, or the channel that the settings name; and whether it is the end."""
    channel = str(notice.get_channel_display())
    shown = f"{notice.to} ({channel})" if notice.to else channel
    return f"{shown}: resolved" if notice.is_end else shown


def _status(notice: OperatorNotice) -> str:
    if notice.sent_at:
        return markup.badge("sent", "success")
    if notice.held and not notice.given_up:
        return format_html("{} {}", markup.badge("held until", "info"), markup.time_of(notice.due))
    return (
        markup.badge("given up", "danger") if notice.given_up else markup.badge("pending", "info")
    )
