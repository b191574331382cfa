"""`inbound`: the feed of accepted messages, and their payloads."""

from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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
from msh.models import InboundPayload, InboundState, Scope
from msh.models.inbound import InboundMessageQuerySet
from msh.store.snapshot import snapshot

from . import schema
from .documents import INBOUND, InboundDocument
from .framework.access import require
from .framework.query import (
    LARGEST_ID,
    MOST,
    Form,
    MarksDocument,
    MarksQuery,
    PageQuery,
    marks,
    moment,
    text,
    up_to,
    validated_query,
)
from .framework.view import ApiView, attachment

CONTENT_LIMIT = 32 * 1024 * 1024
"""Bytes of payloads in one page: one message is given however large it is."""


LOOKED_AT = 50_000
"""Messages that a page looks at, at most, if few of them are as asked."""
READ_STATES = [state for state in InboundState.choices if state[0] != InboundState.HELD]
"""Of messages in the feed."""


class StretchQuery(Form):
    """Parameters of what reads a part of the feed."""

    after = serializers.IntegerField(
        min_value=0,
        max_value=LARGEST_ID,
        required=False,
        help_text="`next` of the previous page; default: behind what retention has removed.",
    )
    up_to = up_to("The last position to be read, which the feed has given.")
    removed = serializers.IntegerField(
        min_value=0,
        max_value=LARGEST_ID,
        default=0,
        help_text="No 410 for what was removed up to this position.",
    )
    seen = serializers.IntegerField(
        min_value=0,
        max_value=LARGEST_ID,
        default=0,
        help_text="The last position that was read: 409 if this feed has not given it.",
    )
    partner = text()
    tpa_id = text()
    service_interface = text()
    action = text()
    message_id = text()
    state = serializers.ChoiceField(READ_STATES, required=False, help_text="As it is now.")
    since = moment("Received at or after this time.")
    until = moment("Received at or before this time.")


class FeedQuery(PageQuery, StretchQuery):
    payloads = serializers.BooleanField(default=False, help_text="Include the content.")


class FeedMarksQuery(MarksQuery, StretchQuery):
    pass


class PositionsQuery(Form):
    since = moment("For `before`.")


class FeedPage(Form):
    results = InboundDocument(many=True)
    next = serializers.IntegerField(help_text="pass this as `after` for the next page")
    more = serializers.BooleanField(
        help_text="ask again now; false: that was all, up to `up_to` or up to now"
    )


class FeedMarksDocument(MarksDocument):
    removed = serializers.IntegerField(help_text="the highest position that retention has removed")


class PositionsDocument(Form):
    first = serializers.IntegerField(
        allow_null=True, help_text="of the first message behind `removed`"
    )
    last = serializers.IntegerField(help_text="of the last message that is committed")
    removed = serializers.IntegerField(help_text="the highest position that retention has removed")
    before = serializers.IntegerField(
        allow_null=True, help_text="behind it is all that was received since the time asked for"
    )


Rows = InboundMessageQuerySet
_FILTERS: Mapping[str, Callable[[Rows, Any], Rows]] = {
    "partner": lambda rows, value: rows.of_partner_named(value),
    "tpa_id": lambda rows, value: rows.under_tpa(value),
    "service_interface": lambda rows, value: rows.filter(service_interface=value),
    "action": lambda rows, value: rows.filter(action=value),
    "message_id": lambda rows, value: rows.with_message_id(value),
    "state": lambda rows, value: rows.in_state(value),
    "since": lambda rows, value: rows.since(value),
    "until": lambda rows, value: rows.until(value),
}


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of a stretch that are as asked, in order; of few such rows not all of a stretch."""

    rows: Rows
    last: int
    """How far they go."""
    is_cut: bool
    removed: int


def _part(query: Mapping[str, Any], looked_at: int) -> _Part:
    """Raises FeedRemoved, FeedRestored."""
    filters = _FILTERS.keys() & query
    asked = feed.Stretch(
        query.get("after"), query["up_to"], query["removed"], query["seen"], query.get("since")
    )
    now = feed.look(asked, looked_at if filters else None)
    rows: Any = feed.messages(now.after, now.border or asked.up_to)
    for name in sorted(filters):
        rows = _FILTERS[name](rows, query[name])
    start = now.removed if asked.after is None else asked.after
    last = max(start, now.border or now.last)
    return _Part(rows, last, now.border is not None, now.removed)


class FeedView(ApiView):
    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="read_feed",
        parameters=[FeedQuery],
        responses={200: FeedPage, **schema.feed_problems(400, 409)},
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
            part = _part(query, LOOKED_AT)
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

    @extend_schema(
        operation_id="mark_feed",
        parameters=[FeedMarksQuery],
        responses={200: FeedMarksDocument, **schema.feed_problems(400, 409)},
    )
    def get(self, request: Request) -> Response:
        """Divide the feed into stretches of `every` messages, to be read side by side: each behind
        the mark before, up to its own. What comes in later is in none of them.
        """
        query = validated_query(request, FeedMarksQuery)
        is_listed = feed.list_new(query["most"], query["up_to"])
        with snapshot():
            part = _part(query, MOST)
            found = marks(part.rows, "feed_position", query)
        return Response(
            {
                "marks": found.marks,
                "count": found.count,
                "last": found.marks[-1] if found.is_cut else part.last,
                "more": found.is_cut or part.is_cut or not is_listed,
                "removed": part.removed,
            }
        )


class PositionsView(ApiView):
    scopes = {"GET": Scope.READ}

    @extend_schema(
        operation_id="get_feed_positions",
        parameters=[PositionsQuery],
        responses={200: PositionsDocument, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """Where the feed begins and ends now, and where it was at a time."""
        since = validated_query(request, PositionsQuery).get("since")
        feed.list_new(MOST)
        with snapshot():
            now = feed.look(feed.Stretch())
            last = max(now.last, now.removed)
            before = feed.before(since) if since else None
            first = feed.first_position(now.removed)
        before = last if since and before is None else before
        found = {"first": first, "last": last, "removed": now.removed, "before": before}
        return Response(found)


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
