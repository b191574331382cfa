"""`links`, `maintenance` and `incidents`: what an operator sees in the console, for programs. What
he does to one is in `row_actions.py`."""

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.operations.inspection.trace import page_of_link
from msh.models import Direction, Incident, MaintenanceWindow, OutboundLink, Scope
from msh.protocol.maintenance import WindowState

from . import schema
from .documents import (
    INCIDENT,
    LINK,
    LINK_SEEN,
    LINK_STATES,
    WINDOW,
    IncidentDocument,
    LinkDocument,
    WindowDocument,
)
from .framework.access import require_permissions, within
from .framework.query import PageQuery, text, validated_query
from .framework.view import ApiView
from .lists import list_view, row_view, where
from .messages import HistoryPage


class LinksQuery(PageQuery):
    state = serializers.ChoiceField(LINK_STATES, required=False)


class IncidentsQuery(PageQuery):
    open = serializers.BooleanField(required=False, help_text="Filter by this state.")


LINKS = list_view(
    "list_links",
    "The lanes to our partners, by id.",
    LinkDocument,
    LinksQuery,
    where(state="state"),
    permission="msh.view_outboundlink",
    rows=OutboundLink.objects,
    columns=LINK,
)
LINK_ROW = row_view("get_link", "The lane to one partner.", LinkDocument, LINKS, LINK_SEEN)


class LinkHistoryQuery(PageQuery):
    direction = serializers.ChoiceField(Direction.values, required=False)
    code = text(help_text="Only events with this code, such as the reason of a refusal.")


class LinkHistoryView(ApiView):
    scopes = {"GET": Scope.OPERATE}
    narrows = True

    @extend_schema(
        operation_id="get_link_history",
        parameters=[LinkHistoryQuery],
        responses={200: HistoryPage, **schema.problems(400, 404)},
    )
    def get(self, request: Request, id: int) -> Response:  # noqa: A002
        """The events of the links with this partner, in both directions, and what was refused
        before it was a message. The history of each message has the other events."""
        require_permissions(request, "msh.view_outboundlink")
        query = validated_query(request, LinkHistoryQuery)
        link = within(request, OutboundLink.objects.filter(pk=id)).first()
        if link is None:
            raise Http404(f"No link {id}.")
        chosen = {name: query.get(name, "") for name in ("direction", "code")}
        after = query.get("after") or 0
        found = page_of_link(link.partner_id, **chosen, after=after, limit=query["limit"])
        return Response({"results": [one.document() for one in found.moments], "next": found.next})


class WindowsQuery(PageQuery):
    partner = text(help_text="The name of one partner.")
    state = serializers.ChoiceField([one.value for one in WindowState], required=False)


WINDOWS = list_view(
    "list_maintenance",
    "Maintenance windows, also those that are over, by id.",
    WindowDocument,
    WindowsQuery,
    where(partner="partner__name", state="state"),
    permission="msh.view_maintenancewindow",
    rows=MaintenanceWindow.objects,
    columns=WINDOW,
)
INCIDENTS = list_view(
    "list_incidents",
    "Incidents, open and resolved, by id.",
    IncidentDocument,
    IncidentsQuery,
    where(open="resolved_at__isnull"),
    permission="msh.view_incident",
    rows=Incident.objects,
    columns=INCIDENT,
)
WINDOW_ROW = row_view("get_maintenance", "One maintenance window.", WindowDocument, WINDOWS, WINDOW)
INCIDENT_ROW = row_view("get_incident", "One incident.", IncidentDocument, INCIDENTS, INCIDENT)
