"""`inbound`: the feed of accepted messages, and their payloads."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.delivery import feed
from msh.models import InboundPayload, InboundState, RemovedInboundPayload, Scope
from msh.models.inbound import InboundMessageQuerySet
from msh.store.delivery.feed import INBOUND as INBOUND_FEED
from msh.store.operations.message_document import find_payloads
from msh.store.snapshot import snapshot

from . import schema
from .documents import INBOUND, InboundDocument
from .framework.access import require, within
from .framework.problems import Gone
from .framework.query import (
    MarksQuery,
    PageQuery,
    moment,
    text,
    validated_query,
)
from .framework.view import ApiView, attachment
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

CONTENT_LIMIT = 32 * 1024 * 1024
"""Bytes of payloads in one page: one message is given however large it is."""


READ_STATES = [state for state in InboundState.choices if state[0] != InboundState.HELD]
"""Of messages in the feed."""


class InboundStretchQuery(StretchQuery):
    partner = text()
    tpa_id = text()
    service_interface = text()
    service_type = text()
    action = text()
    message_id = text()
    state = serializers.ChoiceField(READ_STATES, required=False, help_text="As it is now.")
    since = moment("Received at or after this time.")
    until = moment("Received at or before this time.")


class FeedQuery(PageQuery, InboundStretchQuery):
    payloads = serializers.BooleanField(default=False, help_text="Include the content.")


class FeedMarksQuery(MarksQuery, InboundStretchQuery):
    pass


class InboundPage(FeedPage):
    results = InboundDocument(many=True)


Rows = InboundMessageQuerySet
_FILTERS: Mapping[str, Callable[[Rows, Any], Rows]] = {
    "partner": lambda rows, value: rows.of_partner_named(value),
    "tpa_id": lambda rows, value: rows.under_tpa(value),
    "service_interface": lambda rows, value: rows.filter(service_interface=value),
    "service_type": lambda rows, value: rows.filter(service_type=value),
    "action": lambda rows, value: rows.filter(action=value),
    "message_id": lambda rows, value: rows.with_message_id(value),
    "state": lambda rows, value: rows.in_state(value),
    "since": lambda rows, value: rows.since(value),
    "until": lambda rows, value: rows.until(value),
}
_MESSAGES = Read(INBOUND_FEED, feed.messages, _FILTERS, "link__partner")


class FeedView(ApiView):
    scopes = {"GET": Scope.READ}
    narrows = True

    @extend_schema(
        operation_id="read_feed",
        parameters=[FeedQuery],
        responses={200: InboundPage, **schema.feed_problems(400, 409)},
    )
    def get(self, request: Request) -> Response:
        """Accepted messages behind a position, in an order that never changes: what is accepted
        later comes later, so that nothing is skipped. 410: retention has removed messages that were
        not read. 409: the feed is behind this position, because the database was restored.
        """
        query = validated_query(request, FeedQuery)
        if query["payloads"]:
            require(request, Scope.READ_PAYLOAD)
        limit = query["limit"]
        is_listed = feed.list_new(limit, query["up_to"])
        with snapshot():
            part = part_of(request, query, _MESSAGES, LOOKED_AT)
            rows = list(part.rows.values_list(*INBOUND.values())[: limit + 1])
            results = documents(rows[:limit])
            if query["payloads"]:
                results = fitting(results)
                add_content(results)
        if len(results) < len(rows):
            return Response({"results": results, "next": results[-1]["position"], "more": True})
        more = part.is_cut or not is_listed
        return Response({"results": results, "next": part.last, "more": more})


class FeedMarksView(ApiView):
    scopes = {"GET": Scope.READ}
    narrows = True

    @extend_schema(
        operation_id="mark_feed",
        parameters=[FeedMarksQuery],
        responses={200: FeedMarksDocument, **schema.feed_problems(400, 409)},
    )
    def get(self, request: Request) -> Response:
        """Divide the feed into stretches of `every` messages, to be read side by side: each behind
        the mark before, up to its own. What comes in later is in none of them.
        """
        return marks_of(request, FeedMarksQuery, _MESSAGES)


class PositionsView(ApiView):
    scopes = {"GET": Scope.READ}
    narrows = True

    @extend_schema(
        operation_id="get_feed_positions",
        parameters=[PositionsQuery],
        responses={200: PositionsDocument, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """Where the feed begins and ends now, and where it was at a time."""
        return positions_of(request, INBOUND_FEED)


class PayloadView(ApiView):
    scopes = {"GET": Scope.READ_PAYLOAD}
    narrows = True

    @extend_schema(
        operation_id="get_inbound_payload",
        responses={(200, "*/*"): OpenApiTypes.BINARY, **schema.problems(404, 410)},
    )
    def get(self, request: Request, id: int, number: int) -> HttpResponse:  # noqa: A002
        """The bytes of a payload, as the partner sent them. `number` from 1. 410: retention has
        removed it.
        """
        payloads = within(request, InboundPayload.objects.all(), "message__link__partner")
        payload = payloads.filter(message=id, position=number).first()
        if payload is None:
            named = f"Inbound message {id}"
            removed = within(request, RemovedInboundPayload.objects.all(), "message__link__partner")
            raise no_payload(removed.filter(message=id), named, number)
        return attachment(bytes(payload.content), payload.content_type, payload.label)


def no_payload(removed: QuerySet[Any], named: str, number: int) -> Exception:
    """Why a message has no payload of this number. `removed`: those that it had."""
    if removed.filter(position=number).exists():
        return Gone(f"Payload {number} of {named} was removed by retention.")
    return Http404(f"{named} has no payload {number}.")


def documents(rows: Iterable[Any]) -> list[dict[str, Any]]:
    messages = [dict(zip(INBOUND, row, strict=True)) for row in rows]
    payloads = find_payloads("inbound", [message["id"] for message in messages])
    for message in messages:
        message["payloads"] = payloads.get(message["id"], [])
        message["size"] = sum(payload["size"] for payload in message["payloads"])
    return messages


def fitting(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first ones, as many as have CONTENT_LIMIT bytes of payloads together."""
    sizes = accumulate(
        sum(payload["size"] for payload in message["payloads"] if not payload["removed"])
        for message in messages
    )
    count = sum(size <= CONTENT_LIMIT for size in sizes)
    return messages[: max(1, count)]


def add_content(messages: list[dict[str, Any]]) -> None:
    """What is removed has none, and neither has what is removed meanwhile: it is no empty one."""
    keys = [message["id"] for message in messages]
    rows = InboundPayload.objects.filter(message__in=keys).values_list(
        "message", "position", "content"
    )
    content = {(key, number): content for key, number, content in rows.iterator()}
    for message in messages:
        for payload in message["payloads"]:
            taken = content.pop((message["id"], payload["number"]), None)
            if taken is not None:
                payload["content_base64"] = b64encode(taken).decode()
