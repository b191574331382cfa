"""Columns of the feeds, and the API's JSON as batches of Arrow."""

import base64
from collections.abc import Iterable
from typing import Any

import pyarrow
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_bridge.compat import arrow_schema
from spark_bridge.options import OptionRefused

_COMMENTS = {
    "position": "place in the feed: higher than that of all rows that were there before",
    "id": "number of the message in this MSH",
    "message_id": "MessageId: with partner the key of a message",
    "partner": "name of the partner in this MSH",
    "tpa_id": "agreement",
    "state": "state when it was read",
    "semantics": "OnceAndOnlyOnce or BestEffort",
    "service_interface": "service that the message is for",
    "action": "what is asked of the service",
    "conversation_id": "conversation that the message belongs to",
    "ref_to_message_id": "MessageId of the message that it answers",
    "sequence_number": "place in the order of its pair; null: it has none",
    "epoch": "counts how often the numbers of the pair were reset",
    "order_number": "ebMS 2.0: place in the order of its conversation; null: it has none",
    "from_role": "ebMS 2.0: role of the sender",
    "to_role": "ebMS 2.0: role of the receiver",
    "service_type": "ebMS 2.0: type of the service",
    "size": "bytes of all payloads, removed ones too",
    "received_at": "when it was accepted",
    "submitted_at": "when the application submitted it",
    "ended_at": "when its state became final; null: it is not",
    "attempts": "how often it was sent",
    "event_id": "key of the event: the same in each notification of it",
    "kind": "what became of the message: acknowledged, suspended, cancelled, failed, delayed, ...",
    "at": "when it happened",
    "code": "why: kind of the incident, verdict, or code of the partner's Error",
    "detail": "the same for people: it may change",
    "payloads": "documents; content is null if it was not asked for, or removed by retention",
}


def _commented(*fields: StructField) -> StructType:
    """With what each column is, as DESCRIBE and catalogues show it."""
    return StructType(
        [
            StructField(each.name, each.dataType, each.nullable, {"comment": _COMMENTS[each.name]})
            for each in fields
        ]
    )


_HEADER = (
    StructField("message_id", StringType(), nullable=False),
    StructField("partner", StringType(), nullable=False),
    StructField("tpa_id", StringType()),
    StructField("state", StringType(), nullable=False),
    StructField("semantics", StringType()),
    StructField("service_interface", StringType()),
    StructField("action", StringType()),
    StructField("conversation_id", StringType()),
    StructField("ref_to_message_id", StringType()),
    StructField("sequence_number", LongType()),
    StructField("epoch", IntegerType()),
    StructField("order_number", LongType()),
    StructField("from_role", StringType()),
    StructField("to_role", StringType()),
    StructField("service_type", StringType()),
    StructField("size", LongType()),
)
_OF_EVENT = (
    *("message_id", "partner", "tpa_id", "service_interface", "service_type", "action"),
    *("conversation_id", "ref_to_message_id"),
)
_PAYLOAD = StructType(
    [
        StructField("number", IntegerType()),
        StructField("content_type", StringType()),
        StructField("label", StringType()),
        StructField("description", StringType()),
        StructField("size", LongType()),
        StructField("sha256", StringType()),
        StructField("removed", BooleanType()),
        StructField("content", BinaryType()),
    ]
)
(PAYLOADS,) = _commented(StructField("payloads", ArrayType(_PAYLOAD)))
"""`content` is null if it was not asked for, or `removed` by retention."""
INBOUND = _commented(
    StructField("position", LongType(), nullable=False),
    StructField("id", LongType(), nullable=False),
    *_HEADER,
    StructField("received_at", TimestampType()),
    PAYLOADS,
)
"""`GET inbound`. Sizes in bytes, those of payloads that were removed too."""
OUTBOUND = _commented(
    StructField("id", LongType(), nullable=False),
    *_HEADER,
    StructField("submitted_at", TimestampType()),
    StructField("ended_at", TimestampType()),
    StructField("attempts", IntegerType()),
)
"""`GET messages`; with option payloads there is a column `payloads` too."""


EVENTS = _commented(
    StructField("position", LongType(), nullable=False),
    StructField("event_id", StringType(), nullable=False),
    StructField("kind", StringType(), nullable=False),
    StructField("at", TimestampType()),
    StructField("code", StringType()),
    StructField("detail", StringType()),
    *(StructField(name, StringType()) for name in _OF_EVENT),
)
"""`GET events`."""


class PayloadBroken(Exception):
    """A payload came in another size than the MSH says."""


def require_columns(asked: StructType, there: StructType) -> None:
    """Raises OptionRefused for a column that the feed has not, or has with another type."""
    types = {field.name: field.dataType for field in there.fields}
    for field in asked.fields:
        if types.get(field.name) != field.dataType:
            known = types.get(field.name)
            cure = f"it is {known.simpleString()}" if known else f"there are {', '.join(types)}"
            raise OptionRefused(
                f"Column {field.name} {field.dataType.simpleString()} is none of the feed: {cure}."
                " Leave .schema() out, or name some of the feed's columns."
            )


class Batches:
    """Makes batches of the columns of a schema. Pickled to the executors."""

    def __init__(self, schema: StructType) -> None:
        self.names = tuple(schema.fieldNames())
        self._schema = arrow_schema(schema)

    def batch(self, rows: list[dict[str, Any]]) -> pyarrow.RecordBatch:
        """Raises PayloadBroken."""
        columns = [_column(field, rows) for field in self._schema]
        return pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)


def _column(field: pyarrow.Field, rows: Iterable[dict[str, Any]]) -> pyarrow.Array:
    values = [row.get(field.name) for row in rows]
    if pyarrow.types.is_timestamp(field.type):
        return pyarrow.array(values, pyarrow.string()).cast(field.type)
    if field.name == PAYLOADS.name:
        values = [[_payload(payload) for payload in payloads or ()] for payloads in values]
    return pyarrow.array(values, field.type)


def _payload(payload: dict[str, Any]) -> dict[str, Any]:
    text = payload.get("content_base64")
    content = payload.get("content") if text is None else base64.b64decode(text)
    if content is not None and len(content) != payload["size"]:
        raise PayloadBroken(
            f"Payload {payload['number']} has {len(content)} bytes, not {payload['size']} as the"
            " MSH says. Run it again."
        )
    return payload | {"content": content}
