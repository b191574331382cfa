"""A part of a feed, as `inbound` and `events` read it, and where it begins and ends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.delivery import feed
from msh.store.delivery.feed import Source
from msh.store.snapshot import snapshot

from .framework.access import partners_of, within
from .framework.query import (
    LARGEST_ID,
    MOST,
    Form,
    MarksDocument,
    MarksQuery,
    marks,
    moment,
    up_to,
    validated_query,
)

LOOKED_AT = 50_000
"""Rows that a page looks at, at most, if few of them are as asked."""


class StretchQuery(Form):
    """Parameters of what reads a part of a feed."""

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


class FeedPage(Form):
    next = serializers.IntegerField(help_text="pass this as `after` for the next page")
    more = serializers.BooleanField(
        help_text="ask again now; false: that was all, up to `up_to` or up to now"
    )


class FeedMarksDocument(MarksDocument):
    removed = serializers.IntegerField(help_text="the highest position that retention has removed")


class PositionsQuery(Form):
    since = moment("For `before`.")


class PositionsDocument(Form):
    first = serializers.IntegerField(allow_null=True, help_text="of the first row behind `removed`")
    last = serializers.IntegerField(help_text="of the last row that is committed")
    removed = serializers.IntegerField(help_text="the highest position that retention has removed")
    before = serializers.IntegerField(
        allow_null=True,
        help_text="behind it is all that was received, or happened, since the time asked for",
    )


@dataclass(frozen=True, slots=True)
class Read:
    """What is read: the rows between two positions of a feed, the filters by the name of their
    parameter, and the path from a row to its partner."""

    source: Source
    rows: Callable[[int, int], QuerySet[Any]]
    filters: Mapping[str, Callable[[Any, Any], Any]]
    partner: str


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a stretch that are as asked, in order; of few such rows not all of a stretch."""

    rows: Any
    last: int
    """How far they go."""
    is_cut: bool
    removed: int


def part_of(request: Request, query: Mapping[str, Any], read: Read, looked_at: int) -> Part:
    """Raises FeedRemoved, FeedRestored."""
    filters = read.filters.keys() & query
    asked = feed.Stretch(
        query.get("after"), query["up_to"], query["removed"], query["seen"], query.get("since")
    )
    is_narrow = filters or partners_of(request) is not None
    now = feed.look(asked, looked_at if is_narrow else None, read.source)
    rows = within(request, read.rows(now.after, now.border or asked.up_to), read.partner)
    for name in sorted(filters):
        rows = read.filters[name](rows, query[name])
    start = now.removed if asked.after is None else asked.after
    last = max(start, now.border or now.last)
    return Part(rows, last, now.border is not None, now.removed)


def marks_of(request: Request, asked: type[MarksQuery], read: Read) -> Response:
    """Divide a feed into stretches, as FeedMarksDocument has it. Raises FeedRemoved,
    FeedRestored."""
    query = validated_query(request, asked)
    is_listed = feed.list_new(query["most"], query["up_to"], read.source)
    with snapshot():
        part = part_of(request, query, read, MOST)
        found = marks(part.rows, "feed_position", query)
    document = found.document(part.last, more=part.is_cut or not is_listed)
    return Response(document | {"removed": part.removed})


def positions_of(request: Request, source: Source) -> Response:
    """Say where a feed begins and ends, as PositionsDocument has it.

    They are places in the whole feed, also for a token that is bound to partners: so is `next` of
    each page that it reads, which says how far was looked.
    """
    since = validated_query(request, PositionsQuery).get("since")
    feed.list_new(MOST, source=source)
    with snapshot():
        now = feed.look(feed.Stretch(), source=source)
        last = max(now.last, now.removed)
        before = feed.before(since, source) if since else None
        first = feed.first_position(now.removed, source)
    before = last if since and before is None else before
    return Response({"first": first, "last": last, "removed": now.removed, "before": before})
