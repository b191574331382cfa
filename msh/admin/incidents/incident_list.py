"""The list of incidents: the worst first."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import Case, F, IntegerField, OuterRef, QuerySet, Subquery, When
from django.db.models.expressions import OrderBy
from django.http import HttpRequest
from django.utils.html import format_html
from unfold.contrib.filters.admin import DropdownFilter
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.filters import PartnerFilter, WordsFilter
from msh.admin.framework.found_by import found_message_ids
from msh.admin.framework.pages import ReadOnlyAdmin
from msh.flows.errors import NotPossible
from msh.flows.operations import change_incident
from msh.flows.operations.actions import ASSIGN_TO_ME
from msh.flows.operations.inspection.causes import CAUSES, cause_of
from msh.models import Attempt, Direction, Incident, link_of
from msh.protocol.kinds import IncidentKind
from msh.protocol.reason import Reason
from msh.protocol.severity import Severity, severity_of
from msh.store.history import Actor

BULK_LIMIT = 1000
"""Incidents that are assigned at once, at most."""

SEVERITY = Case(
    *(
        When(kind__in=[kind for kind in IncidentKind if severity_of(kind) is severity], then=rank)
        for rank, severity in enumerate(Severity)
    ),
    default=len(Severity),
    output_field=IntegerField(),
)


class OpenFilter(DropdownFilter):
    title = "state"
    parameter_name = "is"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [("open", "Open"), ("mine", "Open and assigned to me"), ("resolved", "Resolved")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Incident]) -> QuerySet[Incident]:
        match self.value():
            case "open":
                return queryset.filter(resolved_at=None)
            case "mine":
                mine = request.user.get_username()
                return queryset.filter(resolved_at=None, assigned_to=mine)
            case "resolved":
                return queryset.filter(resolved_at__isnull=False)
        return queryset


class KindFilter(WordsFilter):
    """By cause, in words."""

    label = "By problem"

    def values(self, changelist: Any) -> Iterable[tuple[str, str]]:
        kinds = [(kind.value, CAUSES[kind].title) for kind in IncidentKind]
        return sorted(kinds, key=lambda kind: kind[1])


class IncidentList(ReadOnlyAdmin[Incident]):
    list_display = ("severity", "problem", "link", "opened", "count", "whose")
    list_display_links = ("problem",)
    list_filter = (
        OpenFilter,
        ("kind", KindFilter),
        ("partner", PartnerFilter),
        ("direction", WordsFilter),
    )
    search_fields = ("message_id", "partner__name", "partner__display_name", "detail")
    search_help_text = "MessageId, business key, partner, problem or detail"
    list_select_related = ("partner__outbound_link", "partner__inbound_link")
    sortable_by = ()
    actions = ("assign_selected",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Incident]:
        """With the last answer about the message of each, and its reason."""
        sent = Attempt.objects.filter(
            message__link__partner=OuterRef("partner"), message__message_id=OuterRef("message_id")
        )
        last = sent.order_by("-claimed_at")
        incidents: QuerySet[Incident] = super().get_queryset(request)
        return incidents.annotate(
            answered=Subquery(last.values("reason")[:1]), answer=Subquery(last.values("detail")[:1])
        )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Incident], search_term: str
    ) -> tuple[QuerySet[Incident], bool]:
        found, repeats = super().get_search_results(request, queryset, search_term)
        if term := search_term.strip().lower():
            kinds = [kind for kind, cause in CAUSES.items() if term in cause.title.lower()]
            found |= queryset.filter(kind__in=kinds)
        with_key = found_message_ids(request, search_term.strip()) if search_term else ()
        return (found | queryset.filter(message_id__in=with_key) if with_key else found), repeats

    @admin.action(description="Assign to me", permissions=["assign"])
    def assign_selected(self, request: HttpRequest, queryset: QuerySet[Incident]) -> None:
        actor = Actor(request.user.get_username())
        refused = []
        incidents = list(queryset[:BULK_LIMIT])
        for incident in incidents:
            try:
                change_incident.take(incident, actor)
            except NotPossible as problem:
                refused.append(str(problem))
        messages.success(request, f"Assigned to you: {len(incidents) - len(refused)}.")
        for why in sorted(set(refused)):
            messages.error(request, why)

    def has_assign_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(ASSIGN_TO_ME.permissions)

    def get_ordering(self, request: HttpRequest) -> Sequence[OrderBy | str]:
        """Of those that are open, the worst come first, and of these the oldest."""
        if request.GET.get("is") in ("open", "mine"):
            return [SEVERITY.desc(), "opened_at"]
        return [F("resolved_at").desc(nulls_first=True), "-opened_at"]

    @display(description="Severity")
    def severity(self, incident: Incident) -> str:
        if incident.resolved_at:
            return markup.badge("resolved")
        severity = severity_of(incident.kind)
        return markup.badge(severity, markup.SEVERITY_VARIANTS[severity])

    @display(description="Problem")
    def problem(self, incident: Any) -> str:
        """In a cell that links to the incident: links cannot be nested. The answer says more than
        the incident if the cause is its reason."""
        is_out = incident.direction == Direction.OUT
        cause = cause_of(incident.kind, Reason((is_out and incident.answered) or Reason.NONE))
        is_of_answer = cause.title != cause_of(incident.kind).title
        detail = markup.verbatim(incident.answer) if is_of_answer else self.detail_text(incident)
        shown = '{}<div class="msh-note msh-clipped">{}</div>'
        return format_html(shown, cause.title, detail)

    @display(description="State")
    def status(self, incident: Incident) -> str:
        return markup.badge("resolved") if incident.resolved_at else markup.badge("open", "danger")

    @display(description="Assigned to")
    def whose(self, incident: Incident) -> str:
        return incident.assigned_to or "nobody"

    @display(description="Link")
    def link(self, incident: Incident) -> str:
        return markup.link_to(link_of(incident.partner, incident.direction) or incident.partner)

    @display(description="Last MessageId")
    def message(self, incident: Incident) -> str:
        if incident.direction == Direction.OUT:
            return markup.message_link(incident.message_id, incident.direction)
        return markup.trace_link(incident.message_id)  # the message may have been refused

    @display(description="Last detail")
    def detail_text(self, incident: Incident) -> str:
        return markup.local_times(incident.detail)

    @display(description="Opened")
    def opened(self, incident: Incident) -> str:
        return markup.time_and_age(incident.opened_at)
