"""Incidents: what an operator has to mend. Resuming resolves a link's; others have a button."""

from typing import Any

from django.contrib import admin
from django.db.models import F, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import (
    ChoicesDropdownFilter,
    DropdownFilter,
    RelatedDropdownFilter,
)
from unfold.decorators import display

from msh.flows import operate
from msh.flows.advance import Actor
from msh.models import Direction, Incident

from . import cells
from .base import ReadOnlyAdmin
from .dialog import Verb
from .words import CAUSES


class OpenFilter(DropdownFilter):
    title = "open or resolved"
    parameter_name = "is"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("open", "Open"), ("resolved", "Resolved")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Incident]) -> QuerySet[Incident]:
        if self.value() not in ("open", "resolved"):
            return queryset
        return queryset.filter(resolved_at__isnull=self.value() == "open")


class Resolve(Verb):
    name = "resolve"
    title = "Resolve"
    icon = "check"
    first = True
    permissions = ("msh.view_incident", "msh.resolve_incident")

    def why_not(self, row: Incident) -> str:
        return f"it was resolved by {row.resolved_by}." if row.resolved_at else ""

    def consequence(self, row: Incident) -> str:
        return (
            "The incident is closed with your reason. Nothing is sent, accepted or changed by it:"
            " the same cause opens a new incident when it comes again. The partner has nothing to"
            " do."
        )

    def act(self, row: Incident, actor: Actor, **given: Any) -> str:
        operate.resolve(row, actor)
        return "The incident is resolved."


@admin.register(Incident)
class IncidentAdmin(ReadOnlyAdmin):
    list_display = (
        "what",
        "status",
        "link",
        "message",
        "words",
        "count",
        "opened",
        "resolved",
    )
    list_filter = (
        OpenFilter,
        ("kind", ChoicesDropdownFilter),
        ("partner", RelatedDropdownFilter),
        ("direction", ChoicesDropdownFilter),
    )
    search_fields = ("message_id",)
    search_help_text = "MessageId"
    list_select_related = ("partner__outbound_link", "partner__inbound_link")
    sortable_by = ()
    fields = (
        ("what", "status"),
        "advice",
        ("link", "message"),
        "words",
        ("opened_at", "last_at", "count"),
        ("resolved_at", "resolved_by"),
        "resolution",
    )
    verbs = (Resolve(),)

    def get_ordering(self, request: HttpRequest) -> list[Any]:
        return [F("resolved_at").desc(nulls_first=True), "-opened_at"]

    @display(description="What has happened")
    def what(self, incident: Incident) -> str:
        return CAUSES[incident.kind].what

    @display(description="What helps")
    def advice(self, incident: Incident) -> str:
        return CAUSES[incident.kind].advice

    @display(description="State")
    def status(self, incident: Incident) -> str:
        return cells.badge("resolved") if incident.resolved_at else cells.badge("open", "danger")

    @display(description="Link")
    def link(self, incident: Incident) -> str:
        name = "outbound_link" if incident.direction == Direction.OUT else "inbound_link"
        return cells.link_to(getattr(incident.partner, name))

    @display(description="MessageId")
    def message(self, incident: Incident) -> str:
        if incident.direction == Direction.OUT:
            return cells.find_message(incident.message_id, incident.direction)
        return cells.story_of(incident.message_id)  # it may be one that was refused

    @display(description="Detail")
    def words(self, incident: Incident) -> str:
        return cells.verbatim(incident.detail)

    @display(description="Opened")
    def opened(self, incident: Incident) -> str:
        return cells.since(incident.opened_at)

    @display(description="Resolved")
    def resolved(self, incident: Incident) -> str:
        return cells.time_of(incident.resolved_at)
