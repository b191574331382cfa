"""`links`, `maintenance` and `incidents`: what an operator sees in the console, for programs. What
he does to one is in `row_actions.py`."""


from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.operations.inspection.trace import page_of_link
from msh.models import Direction, Incident, MaintenanceWindow, OutboundLink, Scope
from msh.protocol.alerts.maintenance import WindowState

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
from .framework.query import Form, PageQuery, page, text, validated_query
from .framework.view import ApiView
from .messages import HistoryPage


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
