"""`links`, `maintenance` and `incidents`: what an operator sees and does in the console, for
programs."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.operations import actions, change_link, link_actions
from msh.flows.operations.inspection.trace import page_of_link
from msh.flows.operations.operator_action import PlainLinkAction
from msh.models import Direction, Incident, MaintenanceWindow, OutboundLink, Scope
from msh.protocol.alerts.maintenance import WindowState
from msh.store.history import Actor

from . import schema
from .documents import (
    INCIDENT,
    LINK,
    LINK_STATES,
    WINDOW,
    IncidentDocument,
    LinkDocument,
    WindowDocument,
)
from .framework.access import require_permissions
from .framework.query import Form, PageQuery, moment, page, text, validated_query
from .framework.view import ApiView
from .messages import HistoryPage
from .row_actions import Reason, RowActionView, documented, fresh


class LinksQuery(PageQuery):
    state = serializers.ChoiceField(LINK_STATES, required=False)


class LinksPage(Form):
    results = LinkDocument(many=True)
    next = serializers.IntegerField(allow_null=True)


class IncidentsQuery(PageQuery):
    open = serializers.BooleanField(required=False, help_text="Filter by this state.")


class IncidentsPage(Form):
    results = IncidentDocument(many=True)
    next = serializers.IntegerField(allow_null=True)


class ActionForm(Reason):
    """What must be so still, where the caller has looked at the link before: 409 if it is not."""

    if_message = text(
        allow_blank=True, help_text='Precondition: this message is in flight; "": none is.'
    )
    if_suspended_since = moment(
        "Precondition: the link is suspended since this time (`suspended_since`)."
    )


class LinkStateDocument(Form):
    id = serializers.IntegerField()
    partner = serializers.CharField()
    state = serializers.ChoiceField(LINK_STATES)
    text = serializers.CharField(help_text="What was done and what happens next.")


class LinksView(ApiView):
    scopes = {"GET": Scope.OPERATE}

    @extend_schema(
        operation_id="list_links",
        parameters=[LinksQuery],
        responses={200: LinksPage, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """The lanes to our partners, by id."""
        require_permissions(request, "msh.view_outboundlink")
        query = validated_query(request, LinksQuery)
        links = OutboundLink.objects.all()
        if "state" in query:
            links = links.filter(state=query["state"])
        return Response(page(links, LINK, query))


class LinkHistoryQuery(PageQuery):
    direction = serializers.ChoiceField(Direction.values, required=False)


class LinkHistoryView(ApiView):
    scopes = {"GET": Scope.OPERATE}

    @extend_schema(
        operation_id="get_link_history",
        parameters=[LinkHistoryQuery],
        responses={200: HistoryPage, **schema.problems(400, 404)},
    )
    def get(self, request: Request, id: int) -> Response:  # noqa: A002
        """What happened to the links with this partner, both directions, and what was refused of it
        before it was a message. The history of each message has the rest.
        """
        require_permissions(request, "msh.view_outboundlink")
        query = validated_query(request, LinkHistoryQuery)
        link = OutboundLink.objects.filter(pk=id).first()
        if link is None:
            raise Http404(f"No link {id}.")
        direction, after = query.get("direction", ""), query.get("after") or 0
        found = page_of_link(
            link.partner_id, direction=direction, after=after, limit=query["limit"]
        )
        return Response({"results": [one.document() for one in found.moments], "next": found.next})


class LinkActionView(RowActionView):
    action: ClassVar[PlainLinkAction]
    rows = OutboundLink.objects.select_related("partner")
    form = ActionForm
    document = LinkStateDocument

    def act(self, row: OutboundLink, by: Actor, form: Mapping[str, Any]) -> dict[str, Any]:
        seen = change_link.Seen(form.get("if_message"), form.get("if_suspended_since"))
        done = self.action.flow(row.partner, by, seen)
        answer = {"id": row.pk, "partner": row.partner.name, "state": done.state.value}
        return {**answer, "text": done.text}


def _view(action: PlainLinkAction, operation_id: str) -> type[LinkActionView]:
    return documented(operation_id, type(operation_id, (LinkActionView,), {"action": action}))


LINK_ACTIONS = {
    action.hyphenated: _view(action, operation_id)
    for action, operation_id in (
        (link_actions.SUSPEND, "suspend_link"),
        (link_actions.RESUME, "resume_link"),
        (link_actions.SEND_NOW, "send_link_now"),
    )
}
"""By the last part of their addresses. An action on another row, or with parameters, is a view of
its own, as `ResolveView` and `PlanView`."""


class WindowForm(Reason):
    starts_at = moment("When sending is suspended; default: now.")
    ends_at = moment("When it resumes: at most 31 days later.", required=True)
    resume_suspended = serializers.BooleanField(
        default=False,
        help_text="At the end, also resume a link that was already suspended at the beginning.",
    )


@partial(documented, "plan_maintenance")
class PlanView(RowActionView):
    action = link_actions.PLAN_MAINTENANCE
    rows = OutboundLink.objects.select_related("partner")
    form = WindowForm
    document = WindowDocument
    status = 201

    def act(self, row: OutboundLink, by: Actor, form: Mapping[str, Any]) -> MaintenanceWindow:
        wanted = {name: form.get(name) for name in ("starts_at", "ends_at", "resume_suspended")}
        window: MaintenanceWindow = self.action.flow(row.partner, by, **wanted)
        return fresh(window)


class WindowsQuery(PageQuery):
    partner = text(help_text="The name of one partner.")
    state = serializers.ChoiceField([one.value for one in WindowState], required=False)


class WindowsPage(Form):
    results = WindowDocument(many=True)
    next = serializers.IntegerField(allow_null=True)


class WindowsView(ApiView):
    scopes = {"GET": Scope.OPERATE}

    @extend_schema(
        operation_id="list_maintenance",
        parameters=[WindowsQuery],
        responses={200: WindowsPage, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """Maintenance windows, also those that are over, by id."""
        require_permissions(request, "msh.view_maintenancewindow")
        query = validated_query(request, WindowsQuery)
        paths = {"partner": "partner__name", "state": "state"}
        wanted = {path: query[name] for name, path in paths.items() if name in query}
        return Response(page(MaintenanceWindow.objects.filter(**wanted), WINDOW, query))


@partial(documented, "end_maintenance")
class EndWindowView(RowActionView):
    action = actions.END_MAINTENANCE
    rows = MaintenanceWindow.objects.select_related("partner")
    document = WindowDocument


class IncidentsView(ApiView):
    scopes = {"GET": Scope.OPERATE}

    @extend_schema(
        operation_id="list_incidents",
        parameters=[IncidentsQuery],
        responses={200: IncidentsPage, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """Incidents, open and resolved, by id."""
        require_permissions(request, "msh.view_incident")
        query = validated_query(request, IncidentsQuery)
        incidents = Incident.objects.all()
        if "open" in query:
            incidents = incidents.filter(resolved_at__isnull=query["open"])
        return Response(page(incidents, INCIDENT, query))


@partial(documented, "resolve_incident")
class ResolveView(RowActionView):
    action = actions.RESOLVE
    rows = Incident.objects.select_related("partner")
    document = IncidentDocument
