"""The examples of docs/spark.md, as they stand there."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_bridge.session import register
from tests.exchange.machine import ROOT
from tests.exchange.pair import Pair
from tests.spark.office import Office, submitted
from tests.spark.test_read import end_of_feed, receive

Example = Callable[..., dict[str, Any]]


@pytest.fixture
def example(spark: SparkSession, office: Office, tmp_path: Path) -> Example:
    """Run the first block of code after these words, until its query has written all that is there;
    return its names."""
    register(spark)

    def run(title: str, **names: Any) -> dict[str, Any]:
        page = (ROOT / "docs/spark.md").read_text().partition("\n## Examples\n")[2]
        found = re.search(r"```python\n(.*?)```", page.partition(f"**{title}")[2], re.DOTALL)
        assert found
        given: dict[str, Any] = {"spark": spark, "msh": office.options, **names}
        code, table, after = found[1].replace("/data/", f"{tmp_path}/").partition("\nnewest = ")
        assert any(_has_read(code, given) for _ in range(10))
        exec(table + after, given)
        return given

    return run


def _has_read(code: str, given: dict[str, Any]) -> bool:
    """Whether the query has written all that is there. Spark gives the worker that plans a stream
    ten seconds to begin, which nothing sets: on a busy machine it takes longer, and the query is
    begun again, as its checkpoint lets it."""
    exec(code, given)
    try:
        given["query"].processAllAvailable()
    except StreamingQueryException as failed:
        if "failed to connect back" not in str(failed):
            raise
        return False
    finally:
        given["query"].stop()
    return True


def records(folder: Path, pair: Pair, numbers: range) -> None:
    """As Kafka's source has them: key and value are binary."""
    rows = [
        {
            "key": pair.agreement.tpa_id,
            "value": f"<Order no='{n}'/>",
            "topic": "orders",
            "partition": 0,
            "offset": n,
        }
        for n in numbers
    ]
    text = "\n".join(map(json.dumps, rows))
    hidden = folder / f".{numbers.start}"
    hidden.write_text(text)
    hidden.rename(folder / f"{numbers.start:05d}.json")


def test_feed_into_a_table(
    spark: SparkSession, office: Office, tmp_path: Path, example: Example
) -> None:
    """A message that comes again is one row."""
    before = str(end_of_feed(office))
    pair = office.pair()
    receive(pair, 1, 4)
    options = office.options | {"startingPosition": before}
    names = example("Received messages into a table", msh=options)
    found = names["received"]
    again = found.limit(2).withColumn("position", found["position"] + 1)
    again.write.parquet(
        str(Path(found.inputFiles()[0].removeprefix("file:")).parents[1] / "batch=99")
    )
    receive(pair, 5, 6)
    names = example("Received messages into a table", msh=options)
    rows = names["received"].where(f"partner = '{pair.partner.name}'").collect()
    assert sorted(row["sequence_number"] for row in rows) == list(range(1, 7))


def test_topic_of_kafka(
    spark: SparkSession, office: Office, tmp_path: Path, example: Example
) -> None:
    pair = office.silent_pair()
    topic = tmp_path / "topic"
    topic.mkdir()
    records(topic, pair, range(5))
    columns = "key string, value string, topic string, partition int, offset long"
    events = (
        spark.readStream.schema(columns)
        .json(str(topic))
        .selectExpr("CAST(key AS binary)", "CAST(value AS binary)", "topic", "partition", "offset")
    )
    example("A topic of Kafka", events=events)
    records(topic, pair, range(5, 8))
    example("A topic of Kafka", events=events)
    ids = submitted(pair).values_list("message_id", flat=True)
    assert sorted(ids) == [f"orders-0-{n}" for n in range(8)]
    metrics = spark.read.json(str(tmp_path / "metrics")).orderBy("batch_id").collect()
    assert [(row["batch_id"], row["accepted"]) for row in metrics] == [(0, 5), (1, 3)]


def test_stream_in_order(
    spark: SparkSession, office: Office, tmp_path: Path, example: Example
) -> None:
    pair = office.silent_pair()
    topic = tmp_path / "topic"
    topic.mkdir()
    columns = "key string, value string, topic string, partition int, offset long"
    orders = (
        spark.readStream.schema(columns)
        .json(str(topic))
        .selectExpr("key AS tpa_id", "value AS payload", "offset AS order_no")
        .selectExpr("*", "'Orders' AS service_interface", "'New' AS action")
        .selectExpr("*", "CAST(order_no AS string) AS label")
        .repartition(3)
    )
    for numbers in (range(20), range(20, 30)):
        records(topic, pair, numbers)
        example("A stream in order", orders=orders)
    labels = submitted(pair).values_list("payloads__label", flat=True)
    assert list(map(int, labels)) == list(range(30))
