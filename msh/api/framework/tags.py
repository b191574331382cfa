"""ETags: what a program has seen of a row, and whether it is still so (RFC 9110, 8.8.3, 13.1.1)."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import orjson
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from .problems import Unreadable
from .query import Column

_LIST = re.compile(r'\s*(?:W/)?"([!#-~]*)"\s*(?:,|$)')
ANY = "*"

ETAG = OpenApiParameter(
    "ETag",
    location=OpenApiParameter.HEADER,
    response=[200],
    required=True,
    description="Send it as If-Match of an action, which is then done only if nothing that matters"
    " to operators has changed since.",
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    location=OpenApiParameter.HEADER,
    description="Precondition: the ETag of the row as it was read. 412 if it has changed since.",
)


def tag_of(values: Sequence[object]) -> str:
    """Return an opaque tag of these values of a row, without quotes."""
    return sha256(orjson.dumps(values, default=str)).hexdigest()[:32]


def tags_shown(request: Request) -> Sequence[str]:
    """The tags of If-Match, without quotes; empty without the header. Weak ones count: whoever
    compresses an answer on its way makes its tag weak. Raises Unreadable."""
    shown = request.headers.get("If-Match")
    if shown is None:
        return ()
    if shown.strip() == ANY:
        return (ANY,)
    tags, end = [], 0
    while found := _LIST.match(shown, end):
        tags.append(found[1])
        end = found.end()
    if end < len(shown) or not tags:
        raise Unreadable("If-Match", "If-Match: send the ETag as it was given, in quotes")
    return tags


def is_tagged(row: Any, columns: Mapping[str, Column], tags: Sequence[str]) -> bool:
    """Whether the row is as one of the tags says, by the database."""
    rows = type(row).objects.filter(pk=row.pk)
    values = rows.values_list(*columns.values()).first()
    return values is not None and (ANY in tags or tag_of(values) in tags)
