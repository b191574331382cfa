"""Incidents: what an operator has to mend. Resuming resolves a link's; others have a button."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from unfold.contrib.filters.admin import (
    ChoicesDropdownFilter,
    DropdownFilter,
    RelatedDropdownFilter,
)
from unfold.dataclasses import UnfoldAction
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from msh.flows import operate
from msh.flows.advance import Actor
from msh.models import Direction, Incident

from . import cells
from .base import ReadOnlyAdmin
from .verbs import ReasonOnlyForm
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

    actions_detail = ("resolve",)

    @action(
        description="Resolve",
        permissions=["resolve"],
        url_path="resolve",
        icon="check",
        variant=ActionVariant.PRIMARY,
        dialog={
            "title": "Resolve",
            "description": "The incident is closed with your reason. Nothing is sent, accepted or"
            " changed by it: the same cause opens a new incident when it comes again.",
            "form_class": ReasonOnlyForm,
            "form_submit_text": "Resolve",
        },
    )
    def resolve(
        self, request: HttpRequest, form: ReasonOnlyForm, object_id: str
    ) -> HttpResponseRedirect:
        incident = get_object_or_404(Incident.objects.select_related("partner"), pk=object_id)
        actor = Actor(request.user.get_username(), form.cleaned_data["reason"])
        try:
            operate.resolve(incident, actor)
        except operate.NotPossible as refused:
            messages.error(request, str(refused))
        else:
            messages.success(request, "The incident is resolved.")
        return HttpResponseRedirect(reverse("admin:msh_incident_changelist"))

    def has_resolve_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(("msh.view_incident", "msh.resolve_incident"))

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[UnfoldAction]:
        """A resolved incident is not resolved again."""
        is_open = Incident.objects.filter(pk=object_id, resolved_at=None).exists()
        return super().get_actions_detail(request, object_id) if is_open else []

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
