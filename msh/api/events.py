"""`events`: the feed of what became of submitted messages."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.delivery import feed
from msh.flows.sending.webhooks import document_of
from msh.models import Scope
from msh.protocol.kinds import PartyEventKind
from msh.store.delivery.feed import EVENTS
from msh.store.snapshot import snapshot

from . import schema
from .framework.query import Form, MarksQuery, PageQuery, text, validated_query
from .framework.view import ApiView
from .stretch import (
    LOOKED_AT,
    FeedMarksDocument,
    FeedPage,
    PositionsDocument,
    PositionsQuery,
    Read,
    StretchQuery,
    marks_of,
    part_of,
    positions_of,
)

KINDS = [kind.value for kind in PartyEventKind]


class EventsStretchQuery(StretchQuery):
    kind = serializers.ChoiceField(KINDS, required=False)
    partner = text(help_text="The name of one partner.")
    tpa_id = text(help_text="TPAId of the agreement.")
    service_interface = text()
    service_type = text()
    action = text()
    message_id = text()


class EventsQuery(PageQuery, EventsStretchQuery):
    pass


class EventMarksQuery(MarksQuery, EventsStretchQuery):
    pass


class EventDocument(Form):
    position = serializers.IntegerField(help_text="position in the feed")
    event_id = serializers.UUIDField(help_text="The same in each notification of this event.")
    kind = serializers.ChoiceField(KINDS)
    at = serializers.DateTimeField()
    code = serializers.CharField(
        allow_blank=True,
        help_text="suspended, failed: the kind of the incident, or why the attempt of a BestEffort"
        " message failed; cancelled: the verdict; warning, error: the code of the partner's Error",
    )
    detail = serializers.CharField(allow_blank=True, help_text="For people: it may change.")
    message_id = serializers.CharField()
    conversation_id = serializers.CharField()
    ref_to_message_id = serializers.CharField(allow_blank=True)
    service_interface = serializers.CharField()
    service_type = serializers.CharField(allow_blank=True, help_text="ebMS 2.0")
    action = serializers.CharField()
    partner = serializers.CharField()
    tpa_id = serializers.CharField()


class EventsPage(FeedPage):
    results = EventDocument(many=True)


_EVENTS = Read(
    EVENTS,
    feed.events,
    {
        "kind": lambda rows, value: rows.filter(kind=value),
        "partner": lambda rows, value: rows.filter(message__link__partner__name=value),
        "tpa_id": lambda rows, value: rows.filter(message__agreement__tpa_id=value),
        "service_interface": lambda rows, value: rows.filter(message__service_interface=value),
        "service_type": lambda rows, value: rows.filter(message__service_type=value),
        "action": lambda rows, value: rows.filter(message__action=value),
        "message_id": lambda rows, value: rows.filter(message__message_id=value),
    },
    "message__link__partner",
)


class EventsView(ApiView):
    scopes = {"GET": Scope.READ}
    narrows = True

    @extend_schema(
        operation_id="read_events",
        parameters=[EventsQuery],
        responses={200: EventsPage, **schema.feed_problems(400, 409)},
    )
    def get(self, request: Request) -> Response:
        """What became of submitted messages behind a position, in an order that never changes: what
        happens later comes later, so that nothing is skipped. The events of a message are in the
        order in which they happened. 410 and 409 as in the feed of inbound messages.
        """
        query = validated_query(request, EventsQuery)
        limit = query["limit"]
        is_listed = feed.list_new(feed.LIST_AT_ONCE, query["up_to"], EVENTS)
        with snapshot():
            part = part_of(request, query, _EVENTS, LOOKED_AT)
            related = part.rows.select_related("message__link__partner", "message__agreement")
            rows = list(related.defer("message__head")[: limit + 1])
        results = [{"position": row.feed_position, **document_of(row)} for row in rows[:limit]]
        if len(rows) > limit:
            return Response({"results": results, "next": results[-1]["position"], "more": True})
        more = part.is_cut or not is_listed
        return Response({"results": results, "next": part.last, "more": more})


class EventMarksView(ApiView):
    scopes = {"GET": Scope.READ}
    narrows = True

    @extend_schema(
        operation_id="mark_events",
        parameters=[EventMarksQuery],
        responses={200: FeedMarksDocument, **schema.feed_problems(400, 409)},
    )
    def get(self, request: Request) -> Response:
        """Divide the feed of events into stretches of `every` events, to be read side by side."""
        return marks_of(request, EventMarksQuery, _EVENTS)


class EventPositionsView(ApiView):
    scopes = {"GET": Scope.READ}
    narrows = True

    @extend_schema(
        operation_id="get_event_positions",
        parameters=[PositionsQuery],
        responses={200: PositionsDocument, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """Where the feed of events begins and ends now, and where it was at a time."""
        return positions_of(request, EVENTS)
