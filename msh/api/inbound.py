"""`inbound`: the feed of accepted messages, and their payloads."""

from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from django.db.models.functions import Length
from django.http import Http404, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.delivery import feed
from msh.models import InboundPayload, Scope

from . import schema
from .documents import INBOUND, InboundDocument
from .framework.access import require
from .framework.query import Form, PageQuery, validated_query
from .framework.view import ApiView, attachment

CONTENT_LIMIT = 32 * 1024 * 1024
"""Bytes of payloads in one page: one message is given however large it is."""


class FeedQuery(PageQuery):
    payloads = serializers.BooleanField(default=False, help_text="Include the content.")


class FeedPage(Form):
    results = InboundDocument(many=True)
    next = serializers.IntegerField(help_text="pass this as `after` for the next page")


class FeedView(ApiView):
    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="read_feed",
        parameters=[FeedQuery],
        responses={200: FeedPage, **schema.problems(400, 409)},
    )
    def get(self, request: Request) -> Response:
        """Accepted messages behind a position, in an order that never changes: what is accepted
        later comes later, so that nothing is skipped. An empty page: there is no more yet. 409:
        the feed is behind this position, because the database was restored.
        """
        query = validated_query(request, FeedQuery)
        if query["payloads"]:
            require(request, Scope.READ_PAYLOAD)
        after = query.get("after", 0)
        found = feed.page(after, query["limit"]).values_list(*INBOUND.values())
        results = documents(found)
        if after and not results:
            feed.require_possible(after)
        if query["payloads"]:
            results = fitting(results)
            add_content(results)
        return Response({"results": results, "next": results[-1]["position"] if results else after})


class PayloadView(ApiView):
    scopes = {"GET": Scope.READ_PAYLOAD}

    @extend_schema(
        operation_id="get_inbound_payload",
        responses={(200, "*/*"): OpenApiTypes.BINARY, **schema.problems(404)},
    )
    def get(self, request: Request, id: int, number: int) -> HttpResponse:  # noqa: A002
        """The bytes of a payload, as the partner sent them. `number` from 1."""
        payload = InboundPayload.objects.filter(message=id, position=number).first()
        if payload is None:
            raise Http404(f"Inbound message {id} has no payload {number}, or it was removed.")
        return attachment(bytes(payload.content), payload.content_type, payload.label)


def documents(rows: Iterable[Any]) -> list[dict[str, Any]]:
    messages = [dict(zip(INBOUND, row, strict=True)) for row in rows]
    payloads = _payloads([message["id"] for message in messages])
    for message in messages:
        message["payloads"] = payloads[message["id"]]
        message["size"] = sum(payload["size"] for payload in message["payloads"])
    return messages


def fitting(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first ones, as many as have CONTENT_LIMIT bytes of payloads together."""
    sizes = accumulate(message["size"] for message in messages)
    count = sum(size <= CONTENT_LIMIT for size in sizes)
    return messages[: max(1, count)]


def add_content(messages: list[dict[str, Any]]) -> None:
    keys = [message["id"] for message in messages]
    rows = InboundPayload.objects.filter(message__in=keys).values_list(
        "message", "position", "content"
    )
    content = {(key, number): content for key, number, content in rows.iterator()}
    for message in messages:
        for payload in message["payloads"]:
            taken = content.pop((message["id"], payload["number"]), b"")
            payload["content_base64"] = b64encode(taken).decode()


def _payloads(messages: list[int]) -> dict[int, list[dict[str, Any]]]:
    names = ("number", "content_type", "label", "description", "size")
    rows = InboundPayload.objects.filter(message__in=messages).order_by("message_id", "position")
    found = defaultdict(list)
    for key, *values in rows.values_list(
        "message", "position", "content_type", "label", "description", Length("content")
    ):
        found[key].append(dict(zip(names, values, strict=True)))
    return found
