"""The query of an address, and pages that neither repeat nor skip a row."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db.models import QuerySet
from django.db.models.expressions import Combinable
from rest_framework import serializers
from rest_framework.request import Request

from .problems import Refused, Unreadable

PAGE_LIMIT = 1000  # rows
LARGEST_ID = 2**63 - 1  # PostgreSQL's bigint

_EARLIEST, _LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)

Form = serializers.Serializer[Any]
ModelT = TypeVar("ModelT", bound=Any)
Column = str | Combinable
"""A field, by its path, or an expression."""


class PageQuery(Form):
    """Parameters of every list: where it goes on, and how far."""

    limit = serializers.IntegerField(
        min_value=1, max_value=PAGE_LIMIT, default=100, help_text="Maximum rows per page."
    )
    after = serializers.IntegerField(
        min_value=0, max_value=LARGEST_ID, required=False, help_text="`next` of the previous page."
    )


def text(**options: Any) -> serializers.CharField:
    """A text that is compared as it is, blanks included."""
    return serializers.CharField(required=False, trim_whitespace=False, **options)


def moment(help_text: str, *, required: bool = False) -> serializers.DateTimeField:
    """A time to which PostgreSQL can add any interval of ours."""
    return serializers.DateTimeField(
        required=required,
        validators=[MinValueValidator(_EARLIEST), MaxValueValidator(_LATEST)],
        help_text=help_text,
    )


def validated_query(request: Request, query: type[Form]) -> dict[str, Any]:
    """The parameters of the address. Raises Unreadable, also for one that is unknown."""
    given = request.query_params
    unknown = set(given) - set(query().fields)
    if unknown:
        name, known = min(unknown)[:100], ", ".join(query().fields)
        raise Unreadable(name, f"{name!r} is not a parameter; valid ones are {known}")
    for name, values in given.lists():
        if len(values) > 1:
            raise Unreadable(name, f"{name}: given {len(values)} times")
    return _validated(query(data=given.dict()), Unreadable)


def validated_body(request: Request, form: type[Form]) -> dict[str, Any]:
    """The JSON object of the body. Raises Refused."""
    unknown = set(request.data) - set(form().fields)
    if unknown:
        name, known = min(unknown)[:100], ", ".join(form().fields)
        raise Refused(name, f"{name!r} is not a field; valid ones are {known}")
    return _validated(form(data=request.data), Refused)


def _validated(form: Form, error: type[Refused]) -> dict[str, Any]:
    if form.is_valid():
        return dict(form.validated_data)
    field, reasons = next(iter(form.errors.items()))
    field = "" if field == "non_field_errors" else str(field)
    reason = " ".join(map(str, reasons))
    raise error(field, f"{field}: {reason}" if field else reason)


def page(
    rows: QuerySet[ModelT, Any], columns: Mapping[str, Column], query: Mapping[str, Any]
) -> dict[str, Any]:
    """One page by id: `{"results": […], "next": …}`, `next` null where the list ends.

    `columns`: name to field or expression; one is "id". Query `order`: "id" or "-id".
    """
    order = query.get("order", "id")
    if query.get("after") is not None:
        rows = rows.filter(**{"pk__lt" if order == "-id" else "pk__gt": query["after"]})
    limit = query["limit"]
    found = rows.order_by("-pk" if order == "-id" else "pk").values_list(*columns.values())
    results = [dict(zip(columns, row, strict=True)) for row in found[: limit + 1]]
    more = len(results) > limit
    del results[limit:]
    return {"results": results, "next": results[-1]["id"] if more else None}
