"""The inbound feed and the outbound statuses of a real MSH, as rows."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from msh.models import InboundMessage
from spark_bridge.options import read_options
from spark_bridge.reader import FeedReader
from tests.exchange.pair import Pair
from tests.peer import Payload, normal
from tests.spark.office import Office, load, orders
from tests.waiting import wait_until


def receive(pair: Pair, first: int, last: int) -> None:
    """The partner sends its messages `first` to `last`."""
    for number in range(first, last + 1):
        payloads = (Payload(f"<Order no='{number}'/>".encode()), Payload(b"\x00\xff"))
        draft = normal(sequence_number=number, payloads=payloads)
        assert pair.peer.send(draft).status == 204


def read(spark: SparkSession, office: Office, **options: object) -> DataFrame:
    given = office.options | {name: str(value) for name, value in options.items()}
    return spark.read.format("ebxml").options(**given).load()


def last_position(spark: SparkSession, office: Office) -> int:
    """Of the feed as it is: other tests have received too."""
    rows = read(spark, office, payloads="false").agg({"position": "max"}).collect()
    return int(rows[0][0] or 0)


def test_inbound_feed(spark: SparkSession, office: Office) -> None:
    before = last_position(spark, office)
    pair = office.pair()
    receive(pair, 1, 7)
    feed = read(spark, office, startingPosition=before, pageSize=2)
    rows = feed.orderBy("position").collect()
    assert [row["sequence_number"] for row in rows] == list(range(1, 8))
    first = rows[0]
    kept = InboundMessage.objects.get(link__partner=pair.partner, sequence_number=1)
    assert (first["message_id"], first["received_at"].timestamp()) == (
        kept.message_id,
        kept.received_at.timestamp(),
    )
    assert (first["partner"], first["tpa_id"]) == (pair.partner.name, pair.agreement.tpa_id)
    order, scan = first["payloads"]
    assert (bytes(order["content"]), order["number"]) == (b"<Order no='1'/>", 1)
    assert (bytes(scan["content"]), scan["size"]) == (b"\x00\xff", 2)
    bare = read(spark, office, startingPosition=rows[5]["position"], payloads="false").collect()
    assert [row["payloads"][0]["content"] for row in bare] == [None]


def test_feed_in_several_stretches(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is in one of them, whatever their number."""
    monkeypatch.setattr("spark_bridge.reader.MARK_EVERY", 2)
    pair = office.pair()
    before = FeedReader(read_options(office.options, stream=False)).partitions()[-1].until
    receive(pair, 1, 9)
    given = office.options | {"startingPosition": str(before), "pageSize": "3"}
    for most, stretches in ((1, 1), (2, 2), (3, 3), (100, 5)):
        reader = FeedReader(read_options(given | {"numPartitions": str(most)}, stream=False))
        read = [
            [row["sequence_number"] for batch in reader.read(each) for row in batch.to_pylist()]
            for each in reader.partitions()
        ]
        assert len(read) == stretches
        assert all(read)
        assert [number for numbers in read for number in numbers] == list(range(1, 10))


def test_outbound_statuses(spark: SparkSession, office: Office) -> None:
    answering, silent = office.pair(), office.silent_pair()
    load(orders(spark, [answering, silent], 10), office)
    wait_until(lambda: answering.acknowledged() == 5)
    statuses = read(spark, office, feed="outbound", partner=answering.partner.name, pageSize=2)
    assert {row["state"] for row in statuses.collect()} == {"acknowledged"}
    assert sorted(row["sequence_number"] for row in statuses.collect()) == [1, 2, 3, 4, 5]
    assert all(row["ended_at"] >= row["submitted_at"] for row in statuses.collect())
    queued = read(spark, office, feed="outbound", state="queued", tpaId=silent.agreement.tpa_id)
    assert queued.count() == 5


def test_refusal_is_reported(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("no-such-token")
    with pytest.raises(PySparkException, match="answered 401: Unknown token"):
        read(spark, office, tokenFile=wrong).collect()
    with pytest.raises(PySparkException, match="The schema of format ebxml is given"):
        spark.read.schema("id long").format("ebxml").options(**office.options).load().collect()


def test_stream_of_the_feed(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    """Every message once, through a restart from the checkpoint."""
    before = last_position(spark, office)
    pair = office.pair()
    receive(pair, 1, 5)
    for last in (5, 8):
        receive(pair, 6, last)
        options = {"startingPosition": str(before), "maxMessagesPerTrigger": "2"}
        feed = spark.readStream.format("ebxml").options(**office.options, **options).load()
        query = (
            feed.select("sequence_number", "position")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = spark.read.parquet(str(tmp_path / "out")).orderBy("position").collect()
        assert [row["sequence_number"] for row in rows] == list(range(1, last + 1))
