"""Load: the rows of a source become messages, each once, however often the job is run.

    spark-submit spark_bridge/load.py --url https://msh.example --token-file token \\
        --source orders.csv --format csv --read header=true --mapping orders.toml --job-id monday

Done with rejected rows set aside (--rejected): exit status 1.
"""

import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import element_at, split

from spark_bridge.failures import JobFailed
from spark_bridge.job import (
    Summary,
    add_server,
    parser_of,
    read_json,
    run,
    server_options,
)
from spark_bridge.mapping import MessageMapping, read_mapping
from spark_bridge.options import Ids
from spark_bridge.order import ordered_by_pair, unstable_columns

TASKS_OF_A_CORE = 4
CORES_OF_CONNECT = 8  # assumed

FORMATS = ("csv", "json", "parquet", "jdbc", "documents")


def main(words: list[str] | None = None) -> int:
    return run(load, _parser().parse_args(words), "MSH load")


def load(spark: SparkSession, arguments: Namespace) -> Summary:
    mapping = read_mapping(arguments.mapping)
    messages = read_messages(spark, arguments, mapping)
    ids = ids_of(mapping, arguments.job_id)
    require_stable(messages, ids)
    options = server_options(arguments) | dict(arguments.option)
    if ids.column:
        options["idColumn"] = ids.column
    else:
        options |= {"keyColumns": ",".join(ids.key_columns), "jobId": ids.job_id}
    if mapping.order_column:
        tasks = arguments.tasks or _usual_tasks(spark)
        messages = ordered_by_pair(messages, mapping.order_column, tasks)
        options["orderColumn"] = mapping.order_column
    elif arguments.tasks:
        messages = messages.repartition(arguments.tasks)
    if arguments.rejected:
        options["rejectedPath"] = arguments.rejected
    with tempfile.TemporaryDirectory() as folder:
        counted = str(Path(folder) / "counted.json")
        writer = messages.write.format("ebxml").mode("append")
        writer.options(**options, summaryPath=counted).save()
        counts = read_json(counted)
    aside = sum(counts[name] for name in ("rejected", "not_sent", "closed"))
    rows = counts["accepted"] + counts["known"] + aside
    return Summary(good=aside == 0, counts={"rows": rows, **counts})


def _usual_tasks(spark: SparkSession) -> int:
    """So many more than run at a time that a core goes on with another one when its pairs had few
    rows: which pairs share a task is a matter of chance."""
    try:
        cores = spark.sparkContext.defaultParallelism
    except PySparkAttributeError:  # Spark Connect does not say
        cores = CORES_OF_CONNECT
    return TASKS_OF_A_CORE * cores


def ids_of(mapping: MessageMapping, job_id: str | None) -> Ids:
    """Where the MessageIds of the rows come from. Raises JobFailed or OptionRefused."""
    if mapping.id_column:
        return Ids(column=mapping.id_column)
    job_id = (job_id or "").strip()
    if not job_id:
        raise JobFailed("--job-id is missing: with key_columns it makes the MessageIds.")
    return Ids(key_columns=mapping.key_columns, job_id=job_id)


def require_stable(messages: DataFrame, ids: Ids) -> None:
    """Raises JobFailed if the plan shows that a row gets another id each time it is computed."""
    unstable = unstable_columns(messages)
    for name in (ids.column, *ids.key_columns):
        if name in unstable:
            raise JobFailed(
                f"{name} makes the MessageIds, and {unstable[name]} gives it another value in each"
                " run: a row would be sent again. Take columns of the source."
            )


def read_messages(spark: SparkSession, arguments: Namespace, mapping: MessageMapping) -> DataFrame:
    """The rows of the source as messages. Raises JobFailed where they do not fit the mapping."""
    source = read_source(spark, arguments)
    messages = mapping.messages(source)
    if arguments.format == "csv":
        mapping.require_order(source)
    return messages


def read_source(spark: SparkSession, arguments: Namespace) -> DataFrame:
    """As a DataFrame. A folder of documents has the columns path, name, content, length and
    modificationTime."""
    options = dict(arguments.read)
    if arguments.format == "jdbc":
        if "dbtable" not in options and "query" not in options:
            raise JobFailed("A JDBC source needs --read dbtable=NAME or --read query=SELECT.")
        return spark.read.format("jdbc").options(url=arguments.source, **options).load()
    if arguments.format == "documents":
        files = spark.read.format("binaryFile").options(**options).load(arguments.source)
        return files.withColumn("name", element_at(split("path", "/"), -1))
    return spark.read.format(arguments.format).options(**options).load(arguments.source)


def add_source(parser: ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("--source", required=required, help="path or JDBC URL of the rows")
    parser.add_argument("--format", choices=FORMATS, required=required)
    parser.add_argument(
        "--read",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="an option of Spark's reader, such as header=true",
    )
    parser.add_argument(
        "--mapping", required=required, help="mapping file, TOML or JSON; see docs/spark.md"
    )
    parser.add_argument("--job-id", help="id of the job; use the same to run it again")


def _parser() -> ArgumentParser:
    parser = parser_of("load", __doc__)
    add_server(parser)
    add_source(parser)
    parser.add_argument("--rejected", metavar="FOLDER", help="folder for refused rows, as JSON")
    parser.add_argument(
        "--tasks",
        type=int,
        metavar="NUMBER",
        help="how many tasks send; default: four for each core",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="an option of format ebxml, such as batchSize=500",
    )
    return parser


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
