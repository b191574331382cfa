"""Maintenance windows: planned on the page of a link, listed, and ended."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.actions import ActionDialog, ReasonForm
from msh.admin.framework.filters import PartnerFilter, WordsFilter
from msh.admin.framework.pages import ReadOnlyAdmin
from msh.flows.errors import NotPossible
from msh.flows.operations import actions, link_actions
from msh.flows.operations.inspection.causes import cause_of
from msh.flows.operations.maintenance import BEING_CANCELLED, STAYS_SUSPENDED
from msh.models import MaintenanceWindow, OutboundLink, link_of
from msh.protocol.lane import LaneState
from msh.protocol.maintenance import OPEN, WindowState
from msh.protocol.reason import Reason
from msh.store.history import Actor
from msh.store.operations.bulk_jobs import is_cancelling

from .maintenance_form import SeveralForm, WindowForm, local


class Plan(ActionDialog[OutboundLink]):
    action = link_actions.PLAN_MAINTENANCE
    icon = "event_busy"
    form = WindowForm

    def consequence(self, row: OutboundLink) -> str:
        consequence = super().consequence(row)
        if row.state != LaneState.SUSPENDED or row.suspended_since is None:
            return consequence
        cause = cause_of(row.suspended_for, Reason(row.suspended_reason)).title
        return (
            f"{consequence}\n\nThe link is suspended now, since {local(row.suspended_since)}:"
            f" {cause}. It stays suspended at the end of the window, unless you select below"
            " that it is resumed too."
        )

    def act(self, row: OutboundLink, actor: Actor, form: ReasonForm) -> str:
        window = self.action.flow(row.partner, actor, **form.action_fields)
        return _planned(window)


class End(ActionDialog[MaintenanceWindow]):
    action = actions.END_MAINTENANCE
    icon = "event_available"
    dismiss = "Keep window"

    def why_not(self, row: MaintenanceWindow) -> str:
        return "" if row.state in OPEN else f"the window is {row.state}."

    def consequence(self, row: MaintenanceWindow) -> str:
        if row.state == WindowState.PLANNED:
            return f"The window is cancelled: sending to {row.partner} is not suspended by it."
        if row.suspended_since is None:
            return "The window ends now. The link was suspended before it, and stays suspended."
        if is_cancelling(row.partner_id):
            return f"The window ends now. {BEING_CANCELLED}"
        return (
            f"The window ends now, and sending to {row.partner} resumes: the message in flight is"
            " sent again, then the queue. Operators are called about the partner again."
        )


PLAN, END = Plan(), End()
MOST_AT_ONCE = 1000
"""Partners that are selected by filters at most."""


@admin.register(MaintenanceWindow)
class MaintenanceWindowAdmin(ReadOnlyAdmin[MaintenanceWindow]):
    list_display = ("name", "status", "begins", "ends", "why", "planned_by", "became")
    list_filter = (("state", WordsFilter), ("partner", PartnerFilter))
    list_select_related = ("partner__outbound_link",)
    sortable_by = ()
    list_before_template = "admin/msh/links/maintenance_plan_link.html"
    operator_actions = (END,)
    fields = (
        ("link", "status"),
        ("begins", "ends"),
        "why",
        ("planned_by", "planned"),
        "became",
        ("over", "ended_by"),
    )

    def get_urls(self) -> list[URLPattern]:
        plan = self.admin_site.admin_view(self.plan)
        urls: list[URLPattern] = super().get_urls()
        return [path("plan/", plan, name="msh_maintenancewindow_plan"), *urls]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        shown: Any = super().get_changelist_instance(request)
        if PLAN.is_permitted(request):
            shown.when_empty = "Plan maintenance is above, and on the page of each partner."
        return shown

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        extra = {**(extra_context or {}), "may_plan": PLAN.is_permitted(request)}
        response: HttpResponse = super().changelist_view(request, extra)
        return response

    def plan(self, request: HttpRequest) -> HttpResponse:
        """The same window for each selected partner; what one refuses does not stop the others.
        With filters of the list of links in the address, those are selected that it shows."""
        if not PLAN.is_permitted(request):
            raise PermissionDenied
        form = SeveralForm(request.POST or None, initial={"partners": _listed(request)})
        if request.method != "POST" or not form.is_valid():
            context = {
                **self.admin_site.each_context(request),
                "title": PLAN.title,
                "opts": self.opts,
                "form": form,
            }
            return TemplateResponse(request, "admin/msh/links/maintenance_plan.html", context)
        times = form.action_fields
        partners: Any = times.pop("partners")
        actor = Actor(request.user.get_username(), form.cleaned_data["reason"])
        for partner in partners:
            try:
                window = PLAN.action.flow(partner, actor, **times)
            except NotPossible as refused:
                messages.error(request, f"{partner}: {refused}")
            else:
                messages.success(request, _planned(window))
        return HttpResponseRedirect(reverse("admin:msh_maintenancewindow_changelist"))

    @display(description="Partner")
    def name(self, window: MaintenanceWindow) -> str:
        return markup.in_words(str(window.partner))

    @display(description="Link")
    def link(self, window: MaintenanceWindow) -> str:
        return markup.link_to(link_of(window.partner, "out") or window.partner)

    @display(description="State")
    def status(self, window: MaintenanceWindow) -> str:
        return state_badge(window)

    @display(description="Suspend from")
    def begins(self, window: MaintenanceWindow) -> str:
        return markup.time_of(window.starts_at)

    @display(description="Resume at")
    def ends(self, window: MaintenanceWindow) -> str:
        ends = markup.time_of(window.ends_at)
        too_long = _too_long(window)
        return format_html('{}<p class="msh-cause">{}</p>', ends, too_long) if too_long else ends

    @display(description="Reason")
    def why(self, window: MaintenanceWindow) -> str:
        return markup.verbatim(window.reason)

    @display(description="Planned")
    def planned(self, window: MaintenanceWindow) -> str:
        return markup.time_of(window.planned_at)

    @display(description="Ended")
    def over(self, window: MaintenanceWindow) -> str:
        return markup.time_of(window.ended_at)

    @display(description="What happened")
    def became(self, window: MaintenanceWindow) -> str:
        return markup.in_words(window.outcome)


def _listed(request: HttpRequest) -> list[int]:
    """Partners of the links that their list shows by the filters of the address, if it has any."""
    if not request.GET:
        return []
    links: Any = admin.site.get_model_admin(OutboundLink)
    try:
        found = links.get_changelist_instance(request).queryset
    except IncorrectLookupParameters:
        return []
    return list(found.values_list("partner", flat=True)[:MOST_AT_ONCE])


def plan_url(request: HttpRequest, **filters: str) -> str:
    """Return the URL of the plan for the partners whose links the list shows by these filters;
    empty if this user may not plan."""
    if not PLAN.is_permitted(request):
        return ""
    return f"{reverse('admin:msh_maintenancewindow_plan')}?{urlencode(filters)}"


def state_badge(window: MaintenanceWindow) -> SafeString:
    variants = {WindowState.RUNNING: "warning", WindowState.PLANNED: "info"}
    return markup.badge(window.state, variants.get(WindowState(window.state), ""))


def with_window(links: QuerySet[OutboundLink]) -> QuerySet[OutboundLink]:
    """With `in_maintenance`: a window runs. With `window`: its key if it has suspended the link;
    None otherwise."""
    running = MaintenanceWindow.objects.filter(
        partner=OuterRef("partner"), state=WindowState.RUNNING
    )
    suspending = running.filter(suspended_since=OuterRef("suspended_since"))
    return links.annotate(
        window=Subquery(suspending.values("pk")[:1]), in_maintenance=Exists(running)
    )


def window_of(link: Any) -> int | None:
    """`link`: best with `window`, as the list of links has it."""
    if not hasattr(link, "window"):
        (link,) = with_window(OutboundLink.objects.filter(pk=link.pk))
    key: int | None = link.window
    return key


def going_on(link: OutboundLink) -> str:
    """Return what a running window does to a link that is resumed, as a sentence; empty if none
    runs."""
    running = MaintenanceWindow.objects.filter(partner=link.partner, state=WindowState.RUNNING)
    window = running.order_by("ends_at").last()
    if window is None:
        return ""
    return (
        f" The maintenance window goes on until {local(window.ends_at)}: nobody is called about"
        f" {link.partner} before its end. End the window instead, if the maintenance is over."
    )


def _planned(window: MaintenanceWindow) -> str:
    return (
        f"Partner {window.partner}: maintenance is planned from {local(window.starts_at)} to"
        f" {local(window.ends_at)}.{_too_long(window)}"
    )


def _too_long(window: MaintenanceWindow) -> str:
    if not window.window.is_long or window.state not in OPEN:
        return ""
    days = (window.ends_at - window.starts_at).days
    return f" It lasts {days} days, and nobody is called meanwhile: check the end."


def windows_of(request: HttpRequest, partner_id: int) -> Sequence[SafeString]:
    """A sentence for each that runs or is planned, the next first, if the user may see them."""
    if not request.user.has_perm("msh.view_maintenancewindow"):
        return ()
    opened: QuerySet[MaintenanceWindow] = MaintenanceWindow.objects.filter(
        partner=partner_id, state__in=OPEN
    )
    return [_sentence(window) for window in opened.order_by("starts_at")]


def _sentence(window: MaintenanceWindow) -> SafeString:
    shown = (
        '<a href="{}" class="text-link">Maintenance</a> {} from {} to {}, planned by {}: {} Nobody'
        " is called about this partner meanwhile.{}"
    )
    times = markup.time_of(window.starts_at), markup.time_of(window.ends_at)
    by = markup.in_words(window.planned_by), markup.in_words(f"{window.reason.rstrip('.')}.")
    then = _of_suspended(window)
    return format_html(shown, markup.page_url(window), state_badge(window), *times, *by, then)


def _of_suspended(window: MaintenanceWindow) -> str:
    if window.state == WindowState.RUNNING:
        return "" if window.suspended_since else f" {STAYS_SUSPENDED}"
    also = " It also resumes the link if it is already suspended at the beginning."
    return also if window.resume_suspended else ""
