"""What the MSH itself selects: by options, and by the filters of a query that Spark hands over."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import DataSourceReader

END = 2**63 - 1
"""No position and no id is behind it."""
_TEXTS = ("message_id", "partner", "tpa_id", "service_interface", "service_type", "action")


@dataclass(frozen=True)
class Selectable:
    """What the API selects of a feed: by `key`, the column of its order; by columns of text; by
    columns with one of some values; by columns of time, with the query parameters for the earliest
    and the latest."""

    key: str
    choices: Mapping[str, Sequence[str]]
    texts: tuple[str, ...] = _TEXTS
    times: Mapping[str, tuple[str, str]] = field(default_factory=dict)


_INBOUND_STATES = (
    *("accepted", "delivered", "rejected", "parked"),
    *("routed", "withheld", "forwarding", "forwarded"),
)
_OUTBOUND_STATES = (
    *("queued", "in_flight", "held", "acknowledged"),
    *("sent", "failed", "cancelled", "rewound"),
)
_KINDS = ("acknowledged", "suspended", "cancelled", "failed", "delayed", "warning", "error")
OF_FEED: Mapping[str, Selectable] = {
    "inbound": Selectable(
        "position", {"state": _INBOUND_STATES}, times={"received_at": ("since", "until")}
    ),
    "outbound": Selectable(
        "id",
        {"state": _OUTBOUND_STATES},
        (*_TEXTS, "conversation_id"),
        {"submitted_at": ("since", "until"), "ended_at": ("ended_since", "ended_until")},
    ),
    "events": Selectable("position", {"kind": _KINDS}),
}
_EARLIEST, _LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_AT_LEAST = ("GreaterThan", "GreaterThanOrEqual", "EqualTo", "EqualNullSafe")
_AT_MOST = ("LessThan", "LessThanOrEqual", "EqualTo", "EqualNullSafe")


class Selection:
    """`query`: parameters of the API. `after`, `up_to`: bounds of the key column."""

    def __init__(self, of: Selectable, given: Iterable[tuple[str, str]] = ()) -> None:
        self._of = of
        self.query = dict(given)
        self.after = 0
        self.up_to = END

    @property
    def push_filters(self) -> "_Push":
        return _Push(self)

    def narrow(self, kind: str, column: str, value: Any) -> None:
        """By one filter, `kind` being the name of its class. What the API cannot say is left out:
        it may give more than the query asks for, never less."""
        of = self._of
        if column == of.key and type(value) is int:
            self._narrow_key(kind, value)
        elif column in of.times and isinstance(value, datetime) and value.tzinfo:
            self._narrow_time(kind, *of.times[column], value)
        elif kind in ("EqualTo", "EqualNullSafe") and isinstance(value, str):
            known = column in of.texts and value.isprintable() and value
            if known or value in of.choices.get(column, ()):
                self.query.setdefault(column, value)

    def _narrow_key(self, kind: str, value: int) -> None:
        if kind in _AT_LEAST:
            self.after = max(self.after, value - (kind != "GreaterThan"))
        if kind in _AT_MOST:
            self.up_to = min(self.up_to, value - (kind == "LessThan"))

    def _narrow_time(self, kind: str, since: str, until: str, value: datetime) -> None:
        if not _EARLIEST <= value <= _LATEST:
            return
        if kind in _AT_LEAST:
            self.query[since] = max(value, self._time(since, value)).isoformat()
        if kind in _AT_MOST:
            self.query[until] = min(value, self._time(until, value)).isoformat()

    def _time(self, name: str, default: datetime) -> datetime:
        return datetime.fromisoformat(self.query[name]) if name in self.query else default


class _Push:
    """A reader's `pushFilters`. Without `spark.sql.python.filterPushdown.enabled`, which is off by
    default, Spark refuses a reader with a `pushFilters` of its own, which it knows by its
    `__func__`: this one looks inherited. It need not be called, for it gives every filter back:
    Spark applies all of them in any case."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> list[Any]:
        for each in filters:
            column = ".".join(getattr(each, "attribute", ()))
            self._selection.narrow(type(each).__name__, column, getattr(each, "value", None))
        return filters
