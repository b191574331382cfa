"""A row of a DataFrame as a line of `POST messages/bulk`, or the reason why it cannot be one."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructType,
    TimestampType,
)

from spark_bridge.options import Ids
from spark_bridge.order import ORDERED_BY, PAIR_COLUMNS, UNSTABLE

if TYPE_CHECKING:
    from pyarrow import RecordBatch

REQUIRED = ("tpa_id", "service_interface", "action")
ROLES = ("from_role", "to_role", "service_type")
TEXTS = (*REQUIRED, "partner", "conversation_id", "ref_to_message_id", "semantics", *ROLES)
ABOUT_PAYLOAD = ("content_type", "label", "description")
LINE_BYTES = 31 * 1024 * 1024
"""The longest line that is sent: a request is at most 32 MiB."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEY_TYPES = (StringType, IntegralType, DecimalType, DateType, TimestampType, BinaryType)
_CONTENT_TYPES = (StringType, BinaryType)


class ColumnsRefused(ValueError):
    """The DataFrame's columns are not those of messages. Its text names one and the cure."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row with its line, or with the reason why it is not sent."""

    row: Mapping[str, Any]
    message_id: str
    text: bytes = b""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a value of Spark's that Python does not have."""

    said: str

    def __str__(self) -> str:
        return f"({self.said})"


class Layout:
    """Which column is which field of a message. Raises ColumnsRefused.

    `order_checked`: it has to be marked as what `ordered_by_pair` returned."""

    def __init__(
        self, schema: StructType, ids: Ids, order_column: str = "", *, order_checked: bool = False
    ) -> None:
        self._ids = ids
        types = {field.name: field.dataType for field in schema.fields}
        if len(types) < len(schema.fields):
            raise ColumnsRefused("Two columns have the same name: rename one.")
        self._check_ids(types)
        self.texts = tuple(name for name in TEXTS if name in types)
        self.about_payload = tuple(name for name in ABOUT_PAYLOAD if name in types)
        self.several = "payloads" in types
        ids_and_order = (ids.column, *ids.key_columns, order_column)
        needed = [name for name in (*REQUIRED, "partner") if name in types]
        self._needed = (*needed, *filter(None, ids_and_order))
        self.pair = next((name for name in PAIR_COLUMNS if name in types), "")
        for name in REQUIRED:
            if name not in types:
                raise ColumnsRefused(f"Column {name} is missing: every message has one.")
        if order_column:
            _require_order(schema, order_column, self.pair, marked=order_checked)
        _require_stable(schema, *ids_and_order[:-1])
        for name in (*self.texts, *self.about_payload):
            _require(name, types[name], StringType)
        _check_payloads(types)
        used = {*self.texts, *self.about_payload, "payload", "payloads", *ids_and_order}
        for name in types:
            if name not in used:
                raise ColumnsRefused(f"Column {name} is none of a message: rename or drop it.")

    def _check_ids(self, types: Mapping[str, DataType]) -> None:
        for name in (self._ids.column, *self._ids.key_columns):
            if name and name not in types:
                option = "idColumn" if self._ids.column else "keyColumns"
                raise ColumnsRefused(f"Column {name} of option {option} is missing.")
        if self._ids.column:
            _require(self._ids.column, types[self._ids.column], StringType)
        for name in self._ids.key_columns:
            _require(name, types[name], *_KEY_TYPES)

    def lines(self, rows: "RecordBatch | Row") -> Iterator[Line]:
        return map(self._line, rows_of(rows))

    def _line(self, row: dict[str, Any]) -> Line:
        if Unreadable in map(type, row.values()):
            name, value = next(each for each in row.items() if type(each[1]) is Unreadable)
            return Line(row, "", refused=f"{name} is {value.said}")
        for name in self._needed:
            if row[name] is None:
                return Line(row, "", refused=f"{name} is null: give it a value")
        message_id = message_id_of(row, self._ids)
        payloads = row["payloads"] if self.several else [row]
        content = "content" if self.several else "payload"
        if payloads == []:
            return Line(row, message_id, refused="payloads is empty: give it a payload")
        if payloads is None or any(one is None or one[content] is None for one in payloads):
            return Line(row, message_id, refused="payload is null: give it a value")
        text = json.dumps(
            {
                "message_id": message_id,
                **{name: row[name] for name in self.texts if row[name] is not None},
                "payloads": [_payload(one, content) for one in payloads],
            },
            ensure_ascii=False,
        ).encode()
        if len(text) > LINE_BYTES:
            reason = (
                f"its line has {len(text)} bytes, {LINE_BYTES} are the most (binary payloads as"
                " base64): send it by POST messages as multipart/form-data"
            )
            return Line(row, message_id, refused=reason)
        return Line(row, message_id, text)


def rows_of(batch: "RecordBatch | Row") -> Iterator[dict[str, Any]]:
    """A value that Python does not have is Unreadable."""
    if isinstance(batch, Row):  # of a stream, before Spark 4.1
        yield batch.asDict(recursive=True)
        return
    names = batch.schema.names
    for values in zip(*map(_values, batch.columns), strict=True):
        yield dict(zip(names, values, strict=True))


def _values(column: Any) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (ArithmeticError, ValueError):  # one of them is at fault: which?
        values = [_value(each) for each in column]
    return values


def _value(scalar: Any) -> Any:
    """Spark has dates before year 1 and beyond 9999, and strings that are not UTF-8."""
    try:
        return scalar.as_py()
    except (ArithmeticError, ValueError) as error:
        if isinstance(error, UnicodeError):
            return Unreadable("not text in UTF-8: write it as binary")
        unit = "days" if str(scalar.type).startswith("date") else "microseconds"
        number = getattr(scalar, "value", None)
        where = f", {number} {unit} after 1970-01-01" if number is not None else ""
        return Unreadable(f"outside the years 1 to 9999{where}: correct it")


def message_id_of(row: Mapping[str, object], ids: Ids) -> str:
    """The column's value, or `JOB.DIGEST`: of the job id and the key columns' values as text.

    Nothing of where or when a row is written goes into it: a task that is tried again may get its
    rows in another order, and a partition may be cut otherwise.
    """
    if ids.column:
        return str(row[ids.column])
    values = [_key_text(row[name]) for name in ids.key_columns]
    digest = sha256(json.dumps([ids.job_id, *values]).encode()).hexdigest()
    return f"{ids.job_id}.{digest[:40]}"


def message_id_or_none(row: Mapping[str, object], ids: Ids) -> str | None:
    """None for a row that is refused because it can have no id."""
    keys = [row[name] for name in ids.key_columns]
    if None in keys or Unreadable in map(type, keys):
        return None
    return message_id_of(row, ids)


def _key_text(value: object) -> str:
    """The same text for the same value, whatever the session's time zone or the column's scale;
    another for every other value of the column's type."""
    match value:
        case datetime():
            aware = value if value.tzinfo else value.astimezone()
            return str((aware - EPOCH) // timedelta(microseconds=1))
        case date():
            return value.isoformat()
        case Decimal():
            text = format(value, "f")
            return text.rstrip("0").rstrip(".") if "." in text else text
        case bytes() | bytearray():
            return value.hex()
    return str(value)


def _payload(row: Mapping[str, object], content: str) -> dict[str, object]:
    about = {name: row[name] for name in ABOUT_PAYLOAD if row.get(name) is not None}
    value = row[content]
    if isinstance(value, bytes | bytearray):
        return {"content_base64": base64.b64encode(value).decode(), **about}
    return {"content": value, **about}


def _require_order(schema: StructType, column: str, pair: str, *, marked: bool) -> None:
    if column not in schema.names:
        raise ColumnsRefused(f"Column {column} of option orderColumn is missing.")
    if not isinstance(schema[column].dataType, AtomicType):
        kind = schema[column].dataType.simpleString()
        raise ColumnsRefused(f"Column {column} of option orderColumn is {kind}: it has no order.")
    if marked and schema[pair].metadata.get(ORDERED_BY) != column:
        raise ColumnsRefused(
            "Nothing says that the rows of a pair are in order and in one task: write what"
            f" spark_bridge.ordered_by_pair(df, {column!r}) returns. Spark does not sort streams:"
            " write each micro-batch by foreachBatch. Rows that are in order without it need option"
            " orderChecked=false; several tasks of one pair are then found when all is sent."
        )


def _require_stable(schema: StructType, *columns: str) -> None:
    for name in filter(None, columns):
        if said := schema[name].metadata.get(UNSTABLE):
            raise ColumnsRefused(
                f"Column {name} makes the MessageId, and {said} gives it another value each time it"
                " is computed: a row that is tried again would be sent twice. Take columns of the"
                " source."
            )


def _check_payloads(types: Mapping[str, DataType]) -> None:
    if ("payload" in types) == ("payloads" in types):
        raise ColumnsRefused("Either column payload or column payloads is needed, not both.")
    if "payload" in types:
        _require("payload", types["payload"], *_CONTENT_TYPES)
        return
    payloads = types["payloads"]
    element = payloads.elementType if isinstance(payloads, ArrayType) else None
    if not isinstance(element, StructType) or "content" not in element.fieldNames():
        raise ColumnsRefused("Column payloads is not an array of structs with a field content.")
    for field in element.fields:
        if field.name not in ("content", *ABOUT_PAYLOAD):
            raise ColumnsRefused(f"Field {field.name} of payloads is none of a payload: drop it.")
        kinds = _CONTENT_TYPES if field.name == "content" else (StringType,)
        _require(f"payloads.{field.name}", field.dataType, *kinds)


def _require(name: str, found: DataType, *kinds: type[DataType]) -> None:
    if not isinstance(found, kinds):
        wanted = " or ".join(kind.__name__.removesuffix("Type").lower() for kind in kinds)
        raise ColumnsRefused(f"Column {name} is {found.simpleString()}: cast it to {wanted}.")
