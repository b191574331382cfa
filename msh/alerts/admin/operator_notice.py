"""Alerts: which were sent, and which could not be sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import DropdownFilter
from unfold.decorators import display

from msh.admin.dashboard.page import parts
from msh.admin.framework import markup
from msh.admin.framework.filters import WordsFilter
from msh.admin.framework.pages import LargeTableAdmin, Table
from msh.admin.incidents.incident import tables_about
from msh.alerts.flows.call import title_of
from msh.alerts.flows.channels import targets_of_settings
from msh.alerts.flows.notify_operators import TRIES
from msh.alerts.models import AlertRecipient, Channel, OperatorNotice
from msh.alerts.rules.beside import is_said_beside
from msh.alerts.rules.escalation import turn
from msh.flows.operations.inspection.causes import CAUSES
from msh.models import Incident
from msh.protocol.severity import Severity, severity_of

SHOWN_AFTER = timedelta(days=1)
"""How long an alert that was given up stays on the dashboard."""


FAILING = Q(sent_at=None) & (
    (Q(given_up=False) & ~Q(error=""))
    | Q(given_up=True, tries__gte=TRIES, due__gte=Now() - SHOWN_AFTER)
)
"""The last try failed. What is not tried again is shown for a while."""


@dataclass(frozen=True, slots=True)
class Failing:
    """`counts`: a recipient, or a channel that the settings name, and how many alerts it did not
    get. `error`: of the newest."""

    counts: Sequence[tuple[str, int]]
    error: str
    url: str

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts)


@parts.register
def not_sent(request: HttpRequest, now: datetime) -> Mapping[str, object]:
    """Return the part of the dashboard about alerts that were not sent."""
    return {"failing": failing() if request.user.has_perm("msh.view_operatornotice") else None}


def failing() -> Failing | None:
    """Return the alerts that could not be sent; None if there are none."""
    unsent = OperatorNotice.objects.filter(FAILING)
    counts = unsent.order_by("to", "channel").values_list("to", "channel").annotate(n=Count("pk"))
    found = [(to or Channel(channel).label, count) for to, channel, count in counts]
    if not found:
        return None
    error = unsent.order_by("-pk").values_list("error", flat=True)[0]
    return Failing(found, error, markup.list_url(OperatorNotice, **{"is": "failing"}))


class NoticeStateFilter(DropdownFilter):
    title = "state"
    parameter_name = "is"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [
            ("pending", "Pending"),
            ("failing", "Not sent"),
            ("sent", "Sent"),
            ("given-up", "Given up"),
        ]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[OperatorNotice]
    ) -> QuerySet[OperatorNotice]:
        match self.value():
            case "pending":
                return queryset.filter(sent_at=None, given_up=False)
            case "failing":
                return queryset.filter(FAILING)
            case "sent":
                return queryset.filter(sent_at__isnull=False)
            case "given-up":
                return queryset.filter(given_up=True)
        return queryset


@admin.register(OperatorNotice)
class OperatorNoticeAdmin(LargeTableAdmin[OperatorNotice]):
    list_display = (
        *("what", "level", "partner", "message", "whom", "status", "tries", "since", "problem"),
    )
    list_filter = (
        NoticeStateFilter,
        ("channel", WordsFilter),
        ("severity", WordsFilter),
    )
    search_fields = ("to",)
    search_help_text = "Name of the recipient"
    list_select_related = ("partner",)
    fields = (
        ("what", "partner"),
        ("message", "level"),
        ("whom", "channel"),
        "detail",
        ("at", "sent"),
        ("status", "tries"),
        ("due", "problem"),
    )

    @display(description="Problem")
    def what(self, notice: OperatorNotice) -> str:
        return title_of(notice)

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


@tables_about.register
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
    return Table("Alerts", headers, rows, _why_none(incident))


def _why_none(incident: Incident) -> str:
    """Say why there is no alert about it."""
    recipients = AlertRecipient.objects.filter(enabled=True).prefetch_related("partners")
    rules = [one.rule for one in recipients]
    if not rules and not targets_of_settings():
        return "None: no recipient is configured."
    severity = severity_of(incident.kind)
    if not targets_of_settings() and not turn(rules, severity, incident.partner_id, 0).called:
        return f"None: no recipient for severity {severity} of this partner is configured."
    if not incident.announced:
        return "None yet."
    if beside := _beside(incident):
        return format_html("Included in the alert about {} for the same message.", beside)
    return "None: there was no recipient when it opened, or the partner was in maintenance."


def _beside(incident: Incident) -> SafeString | None:
    """Return the incident about the same message with whose alert this one was said, as a link."""
    same = {"partner": incident.partner_id, "direction": incident.direction}
    opened = Incident.objects.filter(**same, message_id=incident.message_id, message_id__gt="")
    kinds = {one.kind: one for one in opened.exclude(pk=incident.pk)}
    if not is_said_beside(incident.kind, kinds):
        return None
    found = next(one for kind, one in kinds.items() if not is_said_beside(kind, {incident.kind}))
    return markup.link_to(found, CAUSES[found.kind].title)


def severity_badge(severity: str) -> str:
    return markup.badge(severity, markup.SEVERITY_VARIANTS[Severity(severity)])


def _whom(notice: OperatorNotice) -> str:
    """Return the recipient, or the channel that the settings name, and whether it is the end."""
    channel = str(notice.get_channel_display())
    shown = f"{notice.to} ({channel})" if notice.to else channel
    return f"{shown}: resolved" if notice.is_end else shown


def _status(notice: OperatorNotice) -> str:
    if notice.sent_at:
        return markup.badge("sent", "success")
    if notice.held and not notice.given_up:
        return format_html("{} {}", markup.badge("held until", "info"), markup.time_of(notice.due))
    if notice.given_up:
        return markup.badge("given up", "danger")
    if notice.error:
        return markup.badge("not sent, retrying", "danger")
    return markup.badge("pending", "info")
