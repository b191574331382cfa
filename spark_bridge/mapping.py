"""The mapping file of the load job: where each field of a message comes from. TOML or JSON."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, expr, lit
from pyspark.sql.types import StringType

from spark_bridge.failures import JobFailed
from spark_bridge.message import ABOUT_PAYLOAD, REQUIRED, TEXTS

FIELDS = (*TEXTS, "payload", "payloads", *ABOUT_PAYLOAD)
_WAYS = ("column", "value", "sql")


@dataclass(frozen=True, slots=True)
class MessageMapping:
    """`fields`: name of a message's field → its column. The id, the keys and the order are named:
    columns of the source, or of `expressions`."""

    fields: dict[str, Column]
    id_column: str
    key_columns: tuple[str, ...]
    order_column: str
    expressions: dict[str, Column]

    def messages(self, source: DataFrame) -> DataFrame:
        kept = [name for name in (self.id_column, *self.key_columns, self.order_column) if name]
        for name in kept:
            if name not in source.columns and name not in self.expressions:
                there = ", ".join(source.columns)
                raise JobFailed(f"The source has no column {name}: there are {there}.")
        beside = [name for name in dict.fromkeys(kept) if name not in self.fields]
        named = [column.alias(name) for name, column in self.fields.items()]
        made = [self.expressions.get(name, col(name)).alias(name) for name in beside]
        return source.select(*named, *made)

    def require_order(self, source: DataFrame) -> None:
        """For a source where everything is text. Raises JobFailed if rows would be sorted by it."""
        name = self.order_column
        if name and name not in self.expressions and source.schema[name].dataType == StringType():
            raise JobFailed(
                f"order_column {name} is text in CSV, and in the order of text 10 comes before 2."
                f' Write order_column = {{sql = "cast({name} AS bigint)"}}, or {{sql = "{name}"}}'
                " if that order is meant."
            )


def read_mapping(path: str) -> MessageMapping:
    """Raises JobFailed with what is wrong in the file."""
    document = _read(path)
    _refuse_unknown(path, document, ("message", "id_column", "key_columns", "order_column"))
    fields = document.get("message")
    if not isinstance(fields, dict):
        raise JobFailed(f"{path} has no table [message]: it says where each field comes from.")
    _refuse_unknown(f"{path}, [message]", fields, FIELDS)
    for name in REQUIRED:
        if name not in fields:
            raise JobFailed(f"{path}, [message]: {name} is missing, every message has one.")
    if not {"id_column", "key_columns"} & document.keys():
        raise JobFailed(f"{path}: give id_column, or key_columns: MessageIds come from there.")
    keys = document.get("key_columns", [])
    if not isinstance(keys, list):
        raise JobFailed(f'{path}: key_columns is a list, as ["order_no"].')
    own = {f"key_column_{number}": key for number, key in enumerate(keys, start=1)}
    own |= {name: document.get(name, "") for name in ("id_column", "order_column")}
    expressions = {
        name: _expression(path, name, source)
        for name, source in own.items()
        if not isinstance(source, str)
    }
    names = own | {name: name for name in expressions}
    return MessageMapping(
        fields={name: _column(path, name, source) for name, source in fields.items()},
        id_column=names.pop("id_column"),
        order_column=names.pop("order_column"),
        key_columns=tuple(names.values()),
        expressions=expressions,
    )


def _read(path: str) -> dict[str, object]:
    try:
        text = Path(path).read_text()
        document = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except OSError as error:
        raise JobFailed(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise JobFailed(f"{path} is not what its name says: {error}.") from None
    if not isinstance(document, dict):
        raise JobFailed(f"{path} is no object: it has message, and id_column or key_columns.")
    return document


def _column(path: str, name: str, source: object) -> Column:
    """`{column = "order_no"}`, `{value = "Orders"}` or `{sql = "concat('tpa-', region)"}`."""
    if isinstance(source, dict) and len(source) == 1:
        ((way, text),) = source.items()
        makers = {"column": col, "value": lit, "sql": expr}
        if way in makers and isinstance(text, str):
            return makers[way](text)
    raise JobFailed(f'{path}, {name}: it is one of {", ".join(_WAYS)}, as {{column = "name"}}.')


def _expression(path: str, name: str, source: object) -> Column:
    if isinstance(source, dict) and source.keys() == {"sql"}:
        return _column(path, name, source)
    raise JobFailed(f'{path}, {name}: it is the name of a column, or {{sql = "EXPRESSION"}}.')


def _refuse_unknown(where: str, given: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise JobFailed(f"{where}: {name} is unknown, there are {', '.join(known)}.")
