"""The query of an address, and pages that neither repeat nor skip a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db.models import F, Q, QuerySet, Window
from django.db.models.expressions import Combinable
from django.db.models.functions import Lead, Mod, RowNumber
from rest_framework import serializers
from rest_framework.request import Request

from .problems import Refused, Unreadable

PAGE_LIMIT = 1000  # rows
LARGEST_ID = 2**63 - 1  # PostgreSQL's bigint

MARKS_LIMIT = 10_000
MOST = 1_000_000
"""Rows that one request for marks covers."""

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


class MarksQuery(Form):
    """Parameters that divide a list into stretches, which can be read side by side."""

    after = serializers.IntegerField(
        min_value=0, max_value=LARGEST_ID, required=False, help_text="Where the first one begins."
    )
    every = serializers.IntegerField(
        min_value=1, max_value=100_000, default=1000, help_text="Rows of a stretch."
    )
    most = serializers.IntegerField(
        min_value=1, max_value=MOST, default=MOST, help_text="Rows of all of them, at most."
    )


class MarksDocument(Form):
    marks = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="the last row of each stretch; the first one begins at `after`",
    )
    count = serializers.IntegerField(help_text="rows of all of them")
    last = serializers.IntegerField(help_text="up to where was looked: what is listed is all")
    more = serializers.BooleanField(help_text="ask again with this `last` as `after`")


def up_to(help_text: str) -> serializers.IntegerField:
    return serializers.IntegerField(
        min_value=0, max_value=LARGEST_ID, default=LARGEST_ID, help_text=help_text
    )


def text(**options: Any) -> serializers.CharField:
    """A text that is compared as it is, blanks included."""
    return serializers.CharField(required=False, trim_whitespace=False, **options)


class _Moment(serializers.DateTimeField):
    default_error_messages = {
        "no_offset": "This time has no offset from UTC: end it with Z, or with one such as +01:00."
    }

    def enforce_timezone(self, value: datetime) -> datetime:
        if value.tzinfo is None:  # whose midnight is meant?
            self.fail("no_offset")
        return super().enforce_timezone(value)


def moment(help_text: str, *, required: bool = False) -> serializers.DateTimeField:
    """A time to which PostgreSQL can add any interval of ours."""
    return _Moment(
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


@dataclass(frozen=True, slots=True)
class Marks:
    """The last row of each stretch, and how many rows there are in all of them."""

    marks: list[int]
    count: int
    is_cut: bool
    """There may be more."""

    def document(self, looked_up_to: int, *, more: bool) -> dict[str, object]:
        """As MarksDocument has it. `more`: there are rows behind where was looked."""
        last = self.marks[-1] if self.is_cut else looked_up_to
        more = self.is_cut or more
        return {"marks": self.marks, "count": self.count, "last": last, "more": more}


def marks(rows: QuerySet[ModelT, Any], column: str, query: Mapping[str, Any]) -> Marks:
    """Divide rows into stretches of `every` rows in the order of a column, by one reading."""
    every = query["every"]
    most = min(query["most"], every * MARKS_LIMIT)
    order = F(column).asc()
    numbered = rows.order_by(column).annotate(
        nth=Window(RowNumber(), order_by=order), following=Window(Lead(column), order_by=order)
    )
    last_of_stretch = Q(nth=most) | Q(following=None) | Q(rest=0)
    found = list(
        numbered.annotate(rest=Mod("nth", every))
        .filter(last_of_stretch, nth__lte=most)
        .values_list(column, "nth")
    )
    count = found[-1][1] if found else 0
    return Marks([mark for mark, _ in found], count, is_cut=count == most)
