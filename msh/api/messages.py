"""`messages`: submit one; find those that were submitted, their history and payloads."""

from collections.abc import Callable, Mapping
from io import BytesIO
from itertools import chain
from typing import IO, Any

from django.conf import settings
from django.db.models import F, Max, Min
from django.http import Http404, HttpResponse
from django.utils.http import parse_header_parameters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from msh import wire
from msh.flows.operations.inspection import trace
from msh.flows.operations.inspection.why_not_sent import explanation_of
from msh.flows.sending.submit import keep
from msh.models import (
    SHOWN_STATES,
    OutboundMessage,
    OutboundPayload,
    RemovedOutboundPayload,
    Scope,
)
from msh.models.outbound import OutboundMessageQuerySet
from msh.store.operations.message_document import find_document, find_payloads

from . import schema
from .documents import OUTBOUND, ExplainedDocument, OutboundDocument
from .framework.access import partners_of, within
from .framework.parsers import JsonParser, whole
from .framework.problems import Refused, Unreadable
from .framework.query import (
    MOST,
    Form,
    MarksDocument,
    MarksQuery,
    PageQuery,
    marks,
    moment,
    page,
    text,
    up_to,
    validated_query,
)
from .framework.view import ApiView, attachment, created
from .inbound import no_payload
from .submission import Agreements, Submission, Values, of_form, prepared, require_room

_OVERHEAD = 1 << 20  # bytes of a request that are not payloads


class FormMessageParser(MultiPartParser):
    def parse(  # type: ignore[override]
        self, stream: IO[bytes], media_type: str, parser_context: Any
    ) -> Values:
        body = whole(stream, parser_context)
        form = super().parse(BytesIO(body), media_type, parser_context)
        try:
            _require_closing_boundary(body, media_type)
            return of_form(form.data, form.files)
        finally:
            for file in chain.from_iterable(files for _, files in form.files.lists()):
                file.close()  # what is spooled, is not kept until the garbage is collected


def _require_closing_boundary(body: bytes, media_type: str) -> None:
    """Raises Unreadable without it: Django takes a file that is cut there for a whole one."""
    boundary = parse_header_parameters(media_type)[1]["boundary"]
    if not body.rstrip().endswith(f"--{boundary}--".encode()):
        raise Unreadable("", f"The form has no closing boundary --{boundary}--: send all of it.")


class MessageFilters(Form):
    up_to = up_to("The last id that is listed.")
    partner = text()
    tpa_id = text()
    state = serializers.ChoiceField(SHOWN_STATES, required=False)
    conversation_id = text()
    message_id = text()
    service_interface = text()
    service_type = text()
    action = text()
    sequence_number = serializers.IntegerField(min_value=1, max_value=2**31 - 1, required=False)
    since = moment("Submitted at or after this time.")
    until = moment("Submitted at or before this time.")
    ended_since = moment("Ended at or after this time.")
    ended_until = moment("Ended at or before this time.")


class MessageQuery(PageQuery, MessageFilters):
    order = serializers.ChoiceField(["id", "-id"], default="id")
    payloads = serializers.BooleanField(
        default=False, help_text="With the payloads of each message, without their content."
    )


class MessageMarksQuery(MarksQuery, MessageFilters):
    pass


class WhichQuery(Form):
    partner = text(help_text="Required if several partners have a message with this MessageId.")


class MessagesPage(Form):
    results = OutboundDocument(many=True)
    next = serializers.IntegerField(allow_null=True)


class HistoryQuery(PageQuery):
    partner = text(help_text="Required if several partners have a message with this MessageId.")


class MomentDocument(Form):
    at = serializers.DateTimeField(help_text="of the last occurrence, if `times` is greater than 1")
    direction = serializers.CharField()
    partner = serializers.CharField()
    event = serializers.CharField()
    from_state = serializers.CharField(allow_blank=True)
    to_state = serializers.CharField(allow_blank=True)
    actor = serializers.CharField()
    code = serializers.CharField(
        allow_blank=True,
        help_text="kind of the incident that was opened, `early_warning` or `duplicate`",
    )
    detail = serializers.CharField(allow_blank=True)
    times = serializers.IntegerField(
        help_text="repetitions within a minute are one entry with a count"
    )
    since = serializers.DateTimeField(allow_null=True, help_text="of the first occurrence")


class HistoryPage(Form):
    results = MomentDocument(many=True)
    next = serializers.IntegerField(allow_null=True)


Rows = OutboundMessageQuerySet
_FILTERS: Mapping[str, Callable[[Rows, Any], Rows]] = {
    "up_to": lambda rows, value: rows.filter(pk__lte=value),
    "partner": lambda rows, value: rows.of_partner_named(value),
    "tpa_id": lambda rows, value: rows.under_tpa(value),
    "state": lambda rows, value: rows.in_state(value),
    "conversation_id": lambda rows, value: rows.in_conversation(value),
    "message_id": lambda rows, value: rows.with_message_id(value),
    "service_interface": lambda rows, value: rows.filter(service_interface=value),
    "service_type": lambda rows, value: rows.filter(service_type=value),
    "action": lambda rows, value: rows.filter(action=value),
    "sequence_number": lambda rows, value: rows.numbered(value),
    "since": lambda rows, value: rows.since(value),
    "until": lambda rows, value: rows.until(value),
    "ended_since": lambda rows, value: rows.filter(completed_at__gte=value),
    "ended_until": lambda rows, value: rows.filter(completed_at__lte=value),
}
"""The filters, most of which are those of the console."""


def _asked_for(request: Request, query: Mapping[str, Any]) -> Rows:
    found = within(request, OutboundMessage.objects.all(), "link__partner")
    for name, narrowed in _FILTERS.items():
        if name in query:
            found = narrowed(found, query[name])
    return found


class MessagesView(ApiView):
    scopes = {"GET": Scope.READ, "POST": Scope.SEND}
    narrows = True
    parser_classes = [JsonParser, FormMessageParser]

    def body_limit(self) -> int:
        limit: int = settings.MSH_MESSAGE_LIMIT
        return limit * 4 // 3 + _OVERHEAD  # as base64

    @extend_schema(
        operation_id="list_messages",
        parameters=[MessageQuery],
        responses={200: MessagesPage, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """Messages that were submitted, by id: a page goes on where the one before ended."""
        query = validated_query(request, MessageQuery)
        found_page = page(_asked_for(request, query), OUTBOUND, query)
        if query["payloads"]:
            messages = found_page["results"]
            payloads = find_payloads("outbound", [message["id"] for message in messages])
            for message in messages:
                message["payloads"] = payloads.get(message["id"], [])
        return Response(found_page)

    @extend_schema(
        operation_id="submit_message",
        parameters=[
            OpenApiParameter(
                "Idempotency-Key",
                location=OpenApiParameter.HEADER,
                description="Used as the MessageId if the body has none.",
            )
        ],
        request={
            "application/json": Submission,
            "multipart/form-data": schema.FORM,
        },
        responses={
            200: OutboundDocument,
            201: OutboundDocument,
            **schema.problems(400, 409, 411, 413, 415, 422),
        },
    )
    def post(self, request: Request) -> Response:
        """Submit one message. 201: it is kept. 200: it was kept before, and this is the same.

        409: its MessageId was used for other content. 422: do not send it again as it is. 503, or
        no answer: send the same again, with the same MessageId.
        """
        require_room()
        data: Any = request.data
        values = _named(data, request.headers.get("Idempotency-Key"))
        agreements = Agreements(partners_of(request))
        agreements.look_up([values.get("tpa_id")])
        stored, is_new = keep(prepared(values, agreements))
        document = _document(stored, _known)
        if not is_new:
            return Response(document)
        return created(document, "messages", stored.message_id, partner=document["partner"])


class MessageMarksView(ApiView):
    scopes = {"GET": Scope.READ}
    narrows = True

    @extend_schema(
        operation_id="mark_messages",
        parameters=[MessageMarksQuery],
        responses={200: MarksDocument, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """Divide the list of submitted messages into stretches of `every` messages, to be read side
        by side: each behind the id before, up to its own.
        """
        query = validated_query(request, MessageMarksQuery)
        ids = OutboundMessage.objects.aggregate(
            first=Min("pk", default=1), last=Max("pk", default=0)
        )
        start = max(query.get("after", 0), ids["first"] - 1)
        last = min(query["up_to"], ids["last"])
        border = min(last, start + MOST)
        found = marks(_asked_for(request, query).filter(pk__gt=start, pk__lte=border), "pk", query)
        return Response(found.document(max(query.get("after", 0), border), more=border < last))


class MessageView(ApiView):
    scopes = {"GET": Scope.READ}
    narrows = True

    @extend_schema(
        operation_id="get_message",
        parameters=[WhichQuery],
        responses={200: ExplainedDocument, **schema.problems(400, 404)},
    )
    def get(self, request: Request, message_id: str) -> Response:
        """One message that was submitted, and why it is not sent or not acknowledged yet."""
        return explained(request, message_id)


def explained(request: Request, message_id: str) -> Response:
    message = find_message(request, message_id)
    copies = OutboundMessage.objects.filter(pk=message.pk)
    named = {"instead_of": F("corrects__message_id"), "submitted_as": F("corrected_by__message_id")}
    chain = copies.values(**named).first() or dict.fromkeys(named)
    explanation = explanation_of(message.pk)
    payloads = find_payloads("outbound", [message.pk]).get(message.pk, [])
    return Response(
        {**_document(message), "payloads": payloads, "explanation": explanation, **chain}
    )


class HistoryView(ApiView):
    scopes = {"GET": Scope.READ}
    narrows = True

    @extend_schema(
        operation_id="get_history",
        parameters=[HistoryQuery],
        responses={200: HistoryPage, **schema.problems(400, 404)},
    )
    def get(self, request: Request, message_id: str) -> Response:
        """Everything that happened to messages of this MessageId, sent and received: a page goes on
        where the one before ended. Attempts, deliveries and pending signals come with the last
        page, as they are now.
        """
        query = validated_query(request, HistoryQuery)
        partner, after = query.get("partner", ""), query.get("after", 0)
        page = trace.page_of_trace(
            message_id,
            partner=partner,
            partner_ids=partners_of(request),
            after=after,
            limit=query["limit"],
        )
        if not page.moments and not after:
            raise Http404(f"Unknown message: {message_id!r}.")
        return Response({"results": [one.document() for one in page.moments], "next": page.next})


class PayloadView(ApiView):
    scopes = {"GET": Scope.READ_PAYLOAD}
    narrows = True

    @extend_schema(
        operation_id="get_payload",
        parameters=[WhichQuery],
        responses={(200, "*/*"): OpenApiTypes.BINARY, **schema.problems(400, 404, 410)},
    )
    def get(self, request: Request, message_id: str, number: int) -> HttpResponse:
        """The bytes of a payload, as they were submitted. `number` from 1. 410: retention has
        removed it.
        """
        message = find_message(request, message_id)
        parts = OutboundPayload.objects.filter(message=message, position=number)
        part = parts.defer("encrypted").first()
        if part is None:
            removed = RemovedOutboundPayload.objects.filter(message=message)
            raise no_payload(removed, f"Message {message_id!r}", number)
        content = wire.part_content(bytes(part.wire), message.boundary)
        return attachment(content, part.content_type, part.label)


def _named(values: Values, key: str | None) -> Values:
    """Return the submission with the Idempotency-Key as its MessageId. Raises Refused if it has
    another one."""
    if key is None:
        return values
    if values.get("message_id", key) != key:
        raise Refused("Idempotency-Key", "Idempotency-Key differs from message_id: omit it")
    return {**values, "message_id": key}


def find_message(request: Request, message_id: str) -> OutboundMessage:
    """That the address names. Raises Http404, Unreadable."""
    query = validated_query(request, WhichQuery)
    found = OutboundMessage.objects.select_related("link__partner", "agreement")
    found = within(request, found.with_message_id(message_id), "link__partner")
    if "partner" in query:
        found = found.filter(link__partner__name=query["partner"])
    match list(found.defer("head")[:2]):
        case [message]:
            return message
        case []:
            raise Http404(f"There is no message {message_id!r}.")
    raise Unreadable(
        "partner", "Several partners have a message with this MessageId: add ?partner=NAME."
    )


def _known(message: OutboundMessage) -> dict[str, Any]:
    """Return the document of a message that retention has removed, as far as it is known."""
    others = {
        "id": message.pk,
        "partner": message.agreement.partner.name,
        "tpa_id": message.agreement.tpa_id,
        "ended_at": message.completed_at,
        "attempts": None,
    }
    return {name: others.get(name, getattr(message, name, None)) for name in OUTBOUND}


def _gone(message: OutboundMessage) -> dict[str, Any]:
    raise Http404(f"There is no message {message.message_id!r} any more.")


def _document(
    message: OutboundMessage, if_removed: Callable[[OutboundMessage], dict[str, Any]] = _gone
) -> dict[str, Any]:
    """Return the document of a message as OUTBOUND lists it."""
    return find_document(message.pk) or if_removed(message)
