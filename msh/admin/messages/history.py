"""The history of links and messages: what happened, when, and by whom."""

from typing import cast

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from unfold.contrib.filters.admin import (
    DropdownFilter,
    TextFilter,
)
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.event_text import event_text, state_text
from msh.admin.framework.filters import PartnerFilter, WordsFilter
from msh.admin.framework.pages import LargeTableAdmin, Table
from msh.admin.framework.runbooks import runbook_url
from msh.flows.operations.inspection.causes import REFUSALS
from msh.models import Direction, History
from msh.models.history import REFUSED, HistoryQuerySet

FIRST_ROWS = 10


class ByFilter(DropdownFilter):
    """Finds the acts of operators among everything that the MSH does."""

    title = "actor"
    parameter_name = "by"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [("person", "A person")]

    def queryset(self, request: HttpRequest, queryset: HistoryQuerySet) -> HistoryQuerySet:
        return queryset.by_persons() if self.value() else queryset


class ActorFilter(TextFilter):
    title = "user name"
    parameter_name = "actor"

    def queryset(self, request: HttpRequest, queryset: HistoryQuerySet) -> HistoryQuerySet:
        name = (self.value() or "").strip()
        return queryset.by_persons(name) if name else queryset


class RefusalFilter(DropdownFilter):
    """Finds what a partner sent and was no message, by the reason."""

    title = "refused for"
    parameter_name = "refusal"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [(str(code), cause.title) for code, cause in REFUSALS.items()]

    def queryset(self, request: HttpRequest, queryset: HistoryQuerySet) -> HistoryQuerySet:
        code = self.value()
        return queryset.refused_for(code) if code else queryset


def history_of_link(partner_id: int, direction: Direction) -> Table:
    of_link = {"partner": partner_id, "direction": direction, "subject": History.Subject.LINK}
    rows = History.objects.filter(**of_link).order_by("-pk")[:FIRST_ROWS]
    headers = ("Time", "What happened", "State", "By", "Reason or detail")
    return Table(
        "Link history, newest first",
        headers,
        [_cells(row) for row in rows],
        "No events yet.",
        markup.list_url(
            History,
            partner__id__exact=partner_id,
            direction__exact=direction,
            subject__exact=History.Subject.LINK,
        ),
    )


def _cells(row: History) -> tuple[str, ...]:
    detail = markup.local_times(_detail(row))
    event = event_text(row.event, row.direction, row.to_state, row.code)
    if row.event in REFUSED:
        event = markup.link_to(row, event)
    return markup.time_of(row.at), event, _transition(row), row.actor, detail


def _detail(row: History) -> str:
    if row.last_at is None:
        return row.detail
    until = timezone.localtime(row.last_at)
    return "; ".join(filter(None, (f"{row.times} times until {until:%H:%M:%S}", row.detail)))


def _transition(row: History) -> str:
    if not row.to_state or row.from_state == row.to_state:
        return state_text(row.to_state) or markup.DASH
    return f"{state_text(row.from_state) or 'new'} → {state_text(row.to_state)}"


@admin.register(History)
class HistoryAdmin(LargeTableAdmin[History]):
    list_display = (
        "time",
        "partner",
        "direction",
        "what",
        "transition",
        "message",
        "actor",
        "words",
    )
    list_filter = (
        ByFilter,
        ActorFilter,
        ("partner", PartnerFilter),
        ("direction", WordsFilter),
        ("subject", WordsFilter),
        RefusalFilter,
    )
    search_fields = ("message_id",)
    search_help_text = "Complete MessageId"
    fields = (
        "at",
        "actor",
        "partner",
        "direction",
        "subject",
        "message",
        ("what", "event", "code"),
        "transition",
        "detail",
        "advice",
        "times",
        "last_at",
    )
    list_select_related = ("partner",)

    def search(self, request: HttpRequest, rows: QuerySet[History], term: str) -> QuerySet[History]:
        return cast("HistoryQuerySet", rows).of_message(term)

    @display(description="Time")
    def time(self, row: History) -> str:
        return markup.time_of(row.at)

    @display(description="What happened")
    def what(self, row: History) -> str:
        return event_text(row.event, row.direction, row.to_state, row.code)

    @display(description="What to do")
    def advice(self, row: History) -> str:
        cause = REFUSALS.get(row.code) if row.event in REFUSED else None
        if cause is None:
            return markup.DASH
        shown = '{} <a href="{}" class="text-link">Runbook</a>'
        return format_html(shown, cause.advice, runbook_url(cause))

    @display(description="State")
    def transition(self, row: History) -> str:
        return _transition(row)

    @display(description="MessageId")
    def message(self, row: History) -> str:
        return markup.message_link(row.message_id, row.direction)

    @display(description="Detail")
    def words(self, row: History) -> str:
        return markup.local_times(_detail(row))
