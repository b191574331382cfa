"""`links`, `maintenance` and `incidents`: what an operator sees and does in the console, for
programs."""

from typing import ClassVar

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.operations import actions, change_link, link_actions
from msh.flows.operations.operator_action import PlainLinkAction
from msh.models import Incident, MaintenanceWindow, OutboundLink, Scope
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
from .framework.parsers import JsonParser
from .framework.query import Form, PageQuery, moment, page, text, validated_body, validated_query
from .framework.view import ApiView, actor

REASON_LIMIT = 500  # characters


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


class Reason(Form):
    reason = serializers.CharField(
        max_length=REASON_LIMIT, help_text="Recorded in the history with the user of the token."
    )


class AloneForm(Reason):
    alone = serializers.CharField(
        required=False,
        max_length=REASON_LIMIT,
        allow_blank=True,
        help_text="If a second person must confirm it (MSH_SECOND_PERSON): the reason to go ahead"
        " without one. Requires MSH_ACT_ALONE and the permission.",
    )


class AskedDocument(Form):
    request = serializers.IntegerField(help_text="The number of the request.")
    until = serializers.DateTimeField(help_text="When it lapses.")
    text = serializers.CharField()


ASKED = OpenApiResponse(AskedDocument, "Not done: a second person must confirm it.")


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


class ActionView(ApiView):
    """An action of an operator on one link."""

    scopes = {"POST": Scope.OPERATE}
    parser_classes = [JsonParser]
    action: ClassVar[PlainLinkAction]

    def post(self, request: Request, id: int) -> Response:  # noqa: A002
        require_permissions(request, *self.action.permissions)
        form = validated_body(request, ActionForm)
        seen = change_link.Seen(form.get("if_message"), form.get("if_suspended_since"))
        link = get_object_or_404(OutboundLink.objects.select_related("partner"), pk=id)
        done = self.action.flow(link.partner, actor(request, form["reason"]), seen)
        answer = {"id": id, "partner": link.partner.name, "state": done.state.value}
        return Response({**answer, "text": done.text})


def _view(action: PlainLinkAction, operation_id: str) -> type[ActionView]:
    documented = extend_schema(
        operation_id=operation_id,
        description=action.summary,
        request=ActionForm,
        responses={200: LinkStateDocument, **schema.problems(400, 404, 409, 411, 413, 415, 422)},
    )

    @documented
    def post(self: ActionView, request: Request, id: int) -> Response:  # noqa: A002
        return ActionView.post(self, request, id)

    return type(operation_id, (ActionView,), {"action": action, "post": post})


LINK_ACTIONS = {
    action.hyphenated: _view(action, operation_id)
    for action, operation_id in (
        (link_actions.SUSPEND, "suspend_link"),
        (link_actions.RESUME, "resume_link"),
        (link_actions.SEND_NOW, "send_link_now"),
    )
}
"""By the last part of their addresses. An action on another row, or with parameters, is a view of
its own, as `ResolveView`."""


class WindowForm(Reason):
    starts_at = moment("When sending is suspended; default: now.")
    ends_at = moment("When it resumes: at most 31 days later.", required=True)


class PlanView(ApiView):
    scopes = {"POST": Scope.OPERATE}
    parser_classes = [JsonParser]

    @extend_schema(
        operation_id="plan_maintenance",
        description=link_actions.PLAN_MAINTENANCE.summary,
        request=WindowForm,
        responses={201: WindowDocument, **schema.problems(400, 404, 409, 411, 413, 415, 422)},
    )
    def post(self, request: Request, id: int) -> Response:  # noqa: A002
        action = link_actions.PLAN_MAINTENANCE
        require_permissions(request, *action.permissions)
        form = validated_body(request, WindowForm)
        link = get_object_or_404(OutboundLink.objects.select_related("partner"), pk=id)
        window = action.flow(
            link.partner,
            actor(request, form["reason"]),
            starts_at=form.get("starts_at"),
            ends_at=form["ends_at"],
        )
        window.refresh_from_db()
        return Response(WindowDocument(window).data, 201)


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


class EndWindowView(ApiView):
    scopes = {"POST": Scope.OPERATE}
    parser_classes = [JsonParser]

    @extend_schema(
        operation_id="end_maintenance",
        description=actions.END_MAINTENANCE.summary,
        request=Reason,
        responses={200: WindowDocument, **schema.problems(400, 404, 409, 411, 413, 415, 422)},
    )
    def post(self, request: Request, id: int) -> Response:  # noqa: A002
        require_permissions(request, *actions.END_MAINTENANCE.permissions)
        reason = validated_body(request, Reason)["reason"]
        window = get_object_or_404(MaintenanceWindow.objects.select_related("partner"), pk=id)
        actions.END_MAINTENANCE.flow(window, actor(request, reason))
        window.refresh_from_db()
        return Response(WindowDocument(window).data)


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


class ResolveView(ApiView):
    scopes = {"POST": Scope.OPERATE}
    parser_classes = [JsonParser]

    @extend_schema(
        operation_id="resolve_incident",
        description=actions.RESOLVE.summary,
        request=Reason,
        responses={200: IncidentDocument, **schema.problems(400, 404, 409, 411, 413, 415, 422)},
    )
    def post(self, request: Request, id: int) -> Response:  # noqa: A002
        require_permissions(request, *actions.RESOLVE.permissions)
        reason = validated_body(request, Reason)["reason"]
        incident = get_object_or_404(Incident.objects.select_related("partner"), pk=id)
        actions.RESOLVE.flow(incident, actor(request, reason))
        incident.refresh_from_db()
        return Response(IncidentDocument(incident).data)
