"""Extract: accepted messages to Parquet, payload XML to columns by XPath; run again, it goes on.

    spark-submit spark_bridge/extract.py --url https://msh.example --token-file token \\
        --output orders --columns orders.toml

Each run writes what has come since the last one; spark_bridge.read_runs(spark, "orders") reads the
folder. A payload that is no XML leaves its columns null, and says so in `payload_error`: exit
status 1.
"""

import re
import sys
import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, fromstring

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, udf
from pyspark.sql.types import StringType, StructField, StructType

from spark_bridge.failures import JobFailed
from spark_bridge.job import Summary, add_server, parser_of, run, server_options
from spark_bridge.output import Output
from spark_bridge.rows import INBOUND

_ATTRIBUTE = re.compile(r"(.*?)/?@([\w.-]+:)?([\w.-]+)")
"""`elements/@name` or `@prefix:name`; what stands in a predicate is none."""
_XML = "http://www.w3.org/XML/1998/namespace"
ERROR = "payload_error"


@dataclass(frozen=True, slots=True)
class PayloadColumns:
    """The file of --columns: from one payload of each message, a column for each path."""

    paths: Mapping[str, str]
    """Column → ElementTree's XPath from the document element; at its end `/@name` may stand."""
    namespaces: Mapping[str, str]
    payload: int
    """Its number, from 1."""

    def values(self, payloads: Iterable[Mapping[str, Any]]) -> dict[str, str | None]:
        """Of a message; `payload_error` says why there are none."""
        payload = next((one for one in payloads if one["number"] == self.payload), None)
        if payload is None or payload["content"] is None:
            missing = "there is no" if payload is None else "retention has removed"
            return {ERROR: f"{missing} payload {self.payload}"}
        try:
            root = fromstring(bytes(payload["content"]))  # noqa: S314 - expat expands no entities beyond bounds
        except (ParseError, LookupError, ValueError) as error:
            return {ERROR: f"no XML: {error}"}
        return {name: self._value(root, path) for name, path in self.paths.items()}

    def check(self) -> None:
        """Raises SyntaxError for what is no path, KeyError for an unknown prefix, ValueError for a
        name that a column of the feed has: Spark tells names in another case not apart."""
        taken = {*INBOUND.fieldNames(), ERROR}
        for name in self.paths:
            if name.lower() in taken:
                raise ValueError(f"a column {name} is there already, name it otherwise")
            taken.add(name.lower())
        for path in self.paths.values():
            self._value(Element("Document"), path)

    def _value(self, root: Element, path: str) -> str | None:
        namespaces = {"xml": _XML, **self.namespaces}
        attribute = _ATTRIBUTE.fullmatch(path)
        if not attribute:
            return root.findtext(path, None, namespaces)
        elements, prefix, name = attribute.groups()
        found = root.find(elements, namespaces) if elements else root
        qualified = f"{{{namespaces[prefix[:-1]]}}}{name}" if prefix else name
        return None if found is None else found.get(qualified)


def main(words: list[str] | None = None) -> int:
    return run(extract, _parser().parse_args(words), "MSH extract")


def extract(spark: SparkSession, arguments: Namespace) -> Summary:
    columns = read_columns(arguments.columns) if arguments.columns else None
    output = Output(spark, arguments.output)
    after = output.found.get("position", 0)
    feed = (
        spark.read.format("ebxml")
        .options(**server_options(arguments), startingPosition=after)
        .options(pageSize=arguments.page_size, numPartitions=arguments.partitions)
        .options(failOnDataLoss=_text(not arguments.skip_removed))
        .options(payloads=_text(columns is not None or not arguments.without_payloads))
        .load()
    )
    rows = feed if columns is None else _with_columns(feed, columns)
    rows = rows.drop("payloads") if arguments.without_payloads else rows
    output.begin()
    rows.write.parquet(output.folder)
    written = spark.read.schema(rows.schema).parquet(output.folder)
    count, until = written.agg({"*": "count", "position": "max"}).first() or (0, None)
    errors = 0 if columns is None else written.where(col(ERROR).isNotNull()).count()
    if until is None:
        output.drop()
    else:
        output.finish(count, {"position": until})
    counts = {"messages": count, "payload_errors": errors, "position": until or after}
    return Summary(good=errors == 0, counts=counts)


def _text(flag: bool) -> str:
    return str(flag).lower()


def _with_columns(feed: DataFrame, columns: PayloadColumns) -> DataFrame:
    names = (*columns.paths, ERROR)
    struct = StructType([StructField(name, StringType()) for name in names])
    values = udf(columns.values, struct, useArrow=False)  # Arrow would need pandas
    return feed.withColumn("_values", values("payloads")).select(*feed.columns, "_values.*")


def read_columns(path: str) -> PayloadColumns:
    """Raises JobFailed with what is wrong in the file."""
    try:
        document = tomllib.loads(Path(path).read_text())
        columns = PayloadColumns(
            paths=document["columns"],
            namespaces=document.get("namespaces", {}),
            payload=int(document.get("payload", 1)),
        )
        columns.check()
    except OSError as error:
        raise JobFailed(f"{path} cannot be read: {error.strerror}.") from None
    except KeyError as error:
        raise JobFailed(f"{path}: {error} is missing.") from None
    except (SyntaxError, ValueError, TypeError, AttributeError) as error:
        raise JobFailed(f"{path} is no file of columns: {error}.") from None
    return columns


def _parser() -> ArgumentParser:
    parser = parser_of("extract", __doc__)
    add_server(parser)
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="folder for the Parquet files"
    )
    parser.add_argument(
        "--columns", metavar="FILE", help="columns to extract, TOML; see docs/spark.md"
    )
    parser.add_argument(
        "--skip-removed",
        action="store_true",
        help="go on although retention has removed messages that were not extracted",
    )
    parser.add_argument("--without-payloads", action="store_true", help="write the columns only")
    parser.add_argument("--partitions", type=int, default=8, help="maximum number of tasks (8)")
    parser.add_argument("--page-size", type=int, default=1000, help="messages in a request (1000)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
