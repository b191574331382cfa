"""The inbound feed and the outbound statuses of a real MSH, as rows."""

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, GreaterThan, LessThanOrEqual
from pyspark.sql.functions import col
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from msh.api.inbound import READ_STATES
from msh.models import SHOWN_STATES, InboundMessage, InboundPayload, PartyEvent
from msh.protocol.kinds import PartyEventKind
from msh.store.engine import run
from msh.store.operations.retention_sql import deletions, kinds
from spark_bridge.client import Client
from spark_bridge.feed import DataLost, Feed
from spark_bridge.options import read_options
from spark_bridge.reader import FeedReader, FeedStreamReader, StatusReader
from spark_bridge.rows import INBOUND, OUTBOUND, PAYLOADS
from spark_bridge.selection import OF_FEED, Selection
from tests.exchange.pair import Pair
from tests.peer import Payload, normal
from tests.spark.office import Office, load, orders, submitted
from tests.spark.queries import finish
from tests.waiting import wait_until

YEARS_AGO = timedelta(days=1000)
POSITIONS = StructType([StructField("position", LongType()), INBOUND["sequence_number"]])


def receive(pair: Pair, first: int, last: int) -> None:
    """The partner sends its messages `first` to `last`."""
    for number in range(first, last + 1):
        payloads = (Payload(f"<Order no='{number}'/>".encode()), Payload(b"\x00\xff"))
        draft = normal(sequence_number=number, payloads=payloads)
        assert pair.peer.send(draft).status == 204


def received(pair: Pair) -> Any:
    return InboundMessage.objects.filter(link__partner=pair.partner).order_by("sequence_number")


def age(pair: Pair, first: int, last: int, by: timedelta) -> Any:
    """Received and delivered so long ago."""
    messages = received(pair).filter(sequence_number__range=(first, last))
    wait_until(lambda: not messages.filter(state="accepted").exists())
    then = datetime.now(UTC) - by
    messages.update(received_at=then, delivered_at=then, state="delivered")
    return messages


def retention_removes(pair: Pair, first: int, last: int) -> None:
    """Messages `first` to `last`, by the statements of retention."""
    remove("inbound messages", age(pair, first, last, YEARS_AGO))


def retention_removes_payloads(pair: Pair) -> None:
    """Those of message 1."""
    aged = received(pair).filter(sequence_number=1)
    remove("inbound payloads", InboundPayload.objects.filter(message__in=aged))


def remove(kind: str, rows: Any) -> None:
    keys = list(rows.values_list("pk", flat=True))
    with transaction.atomic():
        run(*(statement(keys=keys) for statement in deletions(kinds(heard=False)[kind])))


def read(spark: SparkSession, office: Office, **options: object) -> DataFrame:
    given = office.options | {name: str(value) for name, value in options.items()}
    return spark.read.format("ebxml").options(**given).load()


def options(office: Office, *, stream: bool = False, **given: Any) -> Any:
    texts = {name: str(value) for name, value in given.items()}
    return read_options(office.options | texts, stream=stream)


def batch(office: Office, schema: StructType = INBOUND, **given: Any) -> FeedReader:
    return FeedReader(options(office, **given), schema)


def stream(office: Office, **given: Any) -> FeedStreamReader:
    return FeedStreamReader(options(office, stream=True, **given), POSITIONS)


def rows_of(reader: Any, stretches: Any = None) -> list[dict[str, Any]]:
    found = reader.partitions() if stretches is None else stretches
    return [row for each in found for part in reader.read(each) for row in part.to_pylist()]


def numbers(reader: Any, stretches: Any = None) -> list[int]:
    return [row["sequence_number"] for row in rows_of(reader, stretches)]


def end_of_feed(office: Office) -> int:
    with Feed(options(office), Selection(OF_FEED["inbound"])) as feed:
        return feed.last()


def last_position(spark: SparkSession, office: Office) -> int:
    """Of the feed as it is: other tests have received too."""
    return end_of_feed(office)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The requests of all clients of this process: path and query."""
    requests: list[tuple[str, dict[str, Any]]] = []
    get = Client.get

    def noted(self: Client, path: str, **query: Any) -> Any:
        requests.append((path, query))
        return get(self, path, **query)

    monkeypatch.setattr(Client, "get", noted)
    return requests


# --- batch ----------------------------------------------------------------------------------------
def test_inbound_feed(spark: SparkSession, office: Office) -> None:
    before = end_of_feed(office)
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


def test_columns_say_what_they_are(spark: SparkSession, office: Office) -> None:
    for options in ({}, {"feed": "outbound", "payloads": "false"}):
        columns = read(spark, office, **options).schema
        assert [each.name for each in columns if not each.metadata.get("comment")] == []


def test_feed_in_several_stretches(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is in one of them, whatever their number."""
    monkeypatch.setattr("spark_bridge.feed.MARK_EVERY", 2)
    pair = office.pair()
    before = end_of_feed(office)
    receive(pair, 1, 9)
    given: dict[str, Any] = {"startingPosition": before, "pageSize": 3}
    for most, stretches in ((1, 1), (2, 2), (3, 3), (100, 5)):
        reader = batch(office, numPartitions=most, **given)
        found = [numbers(reader, [each]) for each in reader.partitions()]
        assert len(found) == stretches
        assert all(found)
        assert [number for part in found for number in part] == list(range(1, 10))


def test_planning_ends_although_messages_come(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with each request: what came before the first is read, and two requests are enough."""
    pair = office.pair()
    before = end_of_feed(office)
    receive(pair, 1, 3)
    coming, get = iter(range(4, 40)), Client.get
    requests = []

    def overtaken(self: Client, path: str, **query: Any) -> Any:
        requests.append(path)
        found = get(self, path, **query)
        number = next(coming)
        receive(pair, number, number)
        return found

    monkeypatch.setattr(Client, "get", overtaken)
    reader = batch(office, startingPosition=before)
    planned = reader.partitions()
    assert len(requests) <= 2
    requests.clear()
    micro = stream(office)
    end = micro.latestOffset({"position": before}, ReadMaxRows(10_000))
    assert len(requests) <= 2
    assert numbers(reader, planned) == [1, 2, 3]
    assert numbers(micro, micro.partitions({"position": before}, end))[:4] == [1, 2, 3, 4]


def test_columns_that_are_asked_for(
    spark: SparkSession, office: Office, asked: list[tuple[str, dict[str, Any]]]
) -> None:
    """Without the column of payloads their content stays where it is."""
    before = end_of_feed(office)
    receive(office.pair(), 1, 2)
    reader = batch(office, POSITIONS, startingPosition=before)
    assert [list(row) for row in rows_of(reader)] == [["position", "sequence_number"]] * 2
    assert [query["payloads"] for path, query in asked if path == "inbound"] == [None]
    some = spark.read.schema("action string, position long").format("ebxml")
    found = some.options(**office.options, startingPosition=str(before)).load()
    assert found.columns == ["action", "position"]
    assert found.count() == 2
    with pytest.raises(PySparkException, match="Column colour string is none of the feed"):
        spark.read.schema("colour string").format("ebxml").options(**office.options).load().count()


def test_filters_are_given_to_the_msh(
    office: Office, asked: list[tuple[str, dict[str, Any]]]
) -> None:
    one, other = office.pair(), office.pair()
    before = end_of_feed(office)
    receive(one, 1, 3)
    receive(other, 1, 3)
    assert numbers(batch(office, startingPosition=before, partner=one.partner.name)) == [1, 2, 3]
    reader = batch(office, POSITIONS, startingPosition=before)
    positions = [row["position"] for row in rows_of(reader)]
    filters = [
        EqualTo(("tpa_id",), other.agreement.tpa_id),
        EqualTo(("state",), "no state of a message"),
        EqualTo(("service_type",), ""),
        GreaterThan(("position",), positions[3]),
        LessThanOrEqual(("position",), positions[4]),
        GreaterThan(("received_at",), datetime.now(UTC) - YEARS_AGO),
    ]
    reader = batch(office, POSITIONS, startingPosition=before)
    assert reader.pushFilters(filters) == filters  # Spark applies them too
    assert [row["position"] for row in rows_of(reader)] == positions[4:5]
    path, query = asked[-1]
    assert (path, query["tpa_id"]) == ("inbound", other.agreement.tpa_id)
    assert {"state", "service_type"}.isdisjoint(query), "it says no such thing"
    typed = batch(office, POSITIONS, startingPosition=before)
    typed.pushFilters([EqualTo(("service_type",), "string")])
    assert [*rows_of(typed)] == []
    InboundMessage.objects.filter(feed_position=positions[2]).update(service_type="string")
    assert [row["position"] for row in rows_of(typed)] == positions[2:3]
    of_type = batch(office, POSITIONS, startingPosition=before, serviceType="string")
    assert [row["position"] for row in rows_of(of_type)] == positions[2:3]
    nothing = batch(office, POSITIONS)
    nothing.pushFilters([GreaterThan(("position",), 2**63 - 1)])
    assert numbers(nothing) == []


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_filter_of_a_query(spark: SparkSession, office: Office, pushed: str) -> None:
    """The same rows, whether or not Spark hands filters over."""
    pair = office.pair()
    receive(pair, 1, 3)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
    try:
        mine = read(spark, office).where(col("partner") == pair.partner.name)
        assert mine.where("sequence_number > 1").count() == 2
        assert mine.where("partner = 'nobody' OR action = 'x'").count() == 0
        assert read(spark, office).where("state = 'nonsense' AND position > 5").count() == 0
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_starting_timestamp(office: Office) -> None:
    pair = office.pair()
    receive(pair, 1, 2)
    end_of_feed(office)
    between = datetime.now(UTC)
    receive(pair, 3, 4)
    given: dict[str, Any] = {"startingTimestamp": between.isoformat(), "partner": pair.partner.name}
    assert numbers(batch(office, **given)) == [3, 4]
    reader = stream(office, **given)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(10))
    assert numbers(reader, reader.partitions(start, end)) == [3, 4]


# --- what is not there any more -------------------------------------------------------------------
def test_messages_that_retention_has_removed(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    pair = office.pair()
    receive(pair, 1, 4)
    positions = [row["position"] for row in rows_of(batch(office, partner=pair.partner.name))]
    start = {"position": positions[0]}
    reader = stream(office)
    planned = reader.partitions(start, {"position": positions[3]})
    whole = batch(office)
    planned_whole = whole.partitions()
    retention_removes(pair, 2, 3)
    with pytest.raises(DataLost, match=f"up to position {positions[2]}.*failOnDataLoss=false"):
        reader.latestOffset(start, ReadMaxRows(10))
    for reading, stretches in ((reader, planned), (whole, planned_whole)):
        with pytest.raises(DataLost, match="removed by retention"):
            numbers(reading, stretches)
    with pytest.raises(DataLost, match="removed by retention"):
        batch(office, startingPosition=positions[0]).partitions()
    with pytest.raises(DataLost, match="retention has removed messages of later"):
        batch(office, startingTimestamp="2020-01-01T00:00:00Z").partitions()
    left = batch(office, partner=pair.partner.name)
    assert numbers(left) == [1, 4], "from the beginning: what there is"
    caplog.clear()
    going_on = stream(office, failOnDataLoss="false")
    end = going_on.latestOffset(start, ReadMaxRows(10))
    assert numbers(going_on, going_on.partitions(start, end)) == [4]
    assert f"behind position {positions[0]}, up to position {positions[2]}" in caplog.text


def test_feed_that_was_restored(office: Office) -> None:
    """A position that the feed has not given, ahead of it or within."""
    pair = office.pair()
    receive(pair, 1, 1)
    last = end_of_feed(office)
    for position in (last + 3_600_000_000, last - 1):
        with pytest.raises(DataLost, match="the database was restored"):
            stream(office).latestOffset({"position": position}, ReadMaxRows(10))
        with pytest.raises(DataLost, match="the database was restored"):
            batch(office, startingPosition=position).partitions()


def test_payload_that_was_removed_is_not_empty(office: Office) -> None:
    """Of the first message of a pair, which retention keeps."""
    pair = office.pair()
    receive(pair, 1, 2)
    before = rows_of(batch(office, partner=pair.partner.name))[0]
    retention_removes_payloads(pair)
    after = rows_of(batch(office, partner=pair.partner.name))[0]
    assert after["size"] == before["size"] == 17
    for had, has in zip(before["payloads"], after["payloads"], strict=True):
        assert has == had | {"removed": True, "content": None}


# --- statuses -------------------------------------------------------------------------------------
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


def test_statuses_in_several_tasks(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message in one of them, with what was sent as its payloads."""
    monkeypatch.setattr("spark_bridge.reader.MARK_EVERY", 2)
    pair = office.pair()
    for _ in range(7):
        pair.submit()
    wait_until(lambda: pair.acknowledged() == 7)
    schema = StructType([*OUTBOUND.fields, PAYLOADS])
    for most, ranges in ((1, 1), (2, 2), (100, 4)):
        given: dict[str, Any] = {"feed": "outbound", "partner": pair.partner.name}
        given["numPartitions"] = most
        reader = StatusReader(options(office, pageSize=2, payloads="true", **given), schema)
        found = [rows_of(reader, [each]) for each in reader.partitions()]
        assert len(found) == ranges
        rows = [row for part in found for row in part]
        assert [row["message_id"] for row in rows] == [m.message_id for m in submitted(pair)]
        assert all(
            row["payloads"][0]["content"] == office.payload(row["message_id"], 1) for row in rows
        )
    reader = StatusReader(options(office, feed="outbound", partner=pair.partner.name), OUTBOUND)
    second = submitted(pair)[1].pk
    reader.pushFilters([EqualTo(("id",), second), EqualTo(("state",), "acknowledged")])
    assert [row["id"] for row in rows_of(reader)] == [second]
    ended = submitted(pair)[3].completed_at
    assert ended
    given = {"endedSince": ended.isoformat(), "endedUntil": ended.isoformat()}
    reader = StatusReader(options(office, feed="outbound", **given), OUTBOUND)
    assert submitted(pair)[3].pk in [row["id"] for row in rows_of(reader)]
    assert len(rows_of(reader)) < 7


def test_refusal_is_reported(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("no-such-token")
    with pytest.raises(PySparkException, match="answered 401: Unknown token"):
        read(spark, office, tokenFile=wrong).collect()


# --- stream ---------------------------------------------------------------------------------------
def test_end_of_available_now_is_fixed_at_its_start(office: Office) -> None:
    """In steps of the limit; what comes later is left for the next query."""
    pair = office.pair()
    start = {"position": end_of_feed(office)}
    receive(pair, 1, 7)
    reader = stream(office)
    reader.prepareForTriggerAvailableNow()
    found = []
    for later in range(8, 20):
        receive(pair, later, later)
        end = reader.latestOffset(start, ReadMaxRows(3))
        if end == start:
            break
        found.append(numbers(reader, reader.partitions(start, end)))
        start = end
    assert found == [[1, 2, 3], [4, 5, 6], [7]]
    assert reader.reportLatestOffset()["position"] > start["position"]


def test_token_that_is_rotated(office: Office, tmp_path: Path) -> None:
    """A stream lives longer than its first token: the driver reads the file again, and its tasks
    get what it has read."""
    file = tmp_path / "rotated"
    file.write_text("revoked-long-ago")
    before = end_of_feed(office)
    receive(office.pair(), 1, 1)
    reader = stream(office, tokenFile=file, startingPosition=before)
    file.write_text(office.token_file.read_text())
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(10))
    planned = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    file.unlink()
    assert numbers(reader, planned) == [1]


def test_start_of_a_stream(office: Office) -> None:
    pair = office.pair()
    receive(pair, 1, 2)
    assert stream(office).initialOffset() == {"position": 0}
    latest = stream(office, startingPosition="latest")
    start = latest.initialOffset()
    receive(pair, 3, 3)
    end = latest.latestOffset(start, ReadAllAvailable())
    assert numbers(latest, latest.partitions(start, end)) == [3]
    assert latest.latestOffset(end, ReadMaxRows(5)) == end


def test_stream_of_the_feed(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    """Every message once, in micro-batches of the limit, through a restart from the checkpoint."""
    before = end_of_feed(office)
    pair = office.pair()
    receive(pair, 1, 5)
    for last, sizes in ((5, [2, 2, 1]), (8, [2, 1])):
        receive(pair, 6, last)
        options = {"startingPosition": str(before), "maxMessagesPerTrigger": "2"}
        feed = spark.readStream.format("ebxml").options(**office.options, **options).load()
        query = finish(
            feed.select("sequence_number", "position")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        progress = [p for p in query.recentProgress if p["numInputRows"]]
        assert [p["numInputRows"] for p in progress] == sizes
        assert '"position"' in str(progress[-1]["sources"][0]["latestOffset"]).replace("'", '"')
        rows = spark.read.parquet(str(tmp_path / "out")).orderBy("position").collect()
        assert [row["sequence_number"] for row in rows] == list(range(1, last + 1))


# --- events ---------------------------------------------------------------------------------------
def test_events_by_batch_and_by_stream(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    """What became of messages: the reader of received ones, over another feed."""
    with Feed(options(office, feed="events"), Selection(OF_FEED["events"])) as feed:
        before = feed.last()
    pair = office.pair()
    sent: list[str] = []
    given = {"feed": "events", "startingPosition": before, "partner": pair.partner.name}
    for last, sizes in ((5, [2, 2, 1]), (7, [2])):
        sent += [pair.submit().message_id for _ in range(last - len(sent))]
        wait_until(lambda: pair.acknowledged() == last)  # noqa: B023  called at once
        rows = read(spark, office, **given, pageSize=2, numPartitions=2).orderBy("position")
        found = [(row["message_id"], row["kind"], row["service_type"]) for row in rows.collect()]
        assert found == [(name, "acknowledged", "") for name in sent]

        texts = {name: str(value) for name, value in given.items()}
        stream = spark.readStream.format("ebxml").options(**office.options, **texts)
        query = finish(
            stream.option("maxMessagesPerTrigger", "2")
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]] == sizes
        told = spark.read.parquet(str(tmp_path / "out")).orderBy("position").collect()
        assert [row["message_id"] for row in told] == sent
    event = PartyEvent.objects.get(message__message_id=sent[0])
    assert (told[0]["event_id"], told[0]["at"].timestamp()) == (
        str(event.event_id),
        event.at.timestamp(),
    )
    assert read(spark, office, **given, kind="failed").count() == 0


def test_kinds_and_states_are_those_of_the_msh() -> None:
    """Another one in a filter would be refused by it, and then the query fails."""
    choices = {name: dict(of.choices) for name, of in OF_FEED.items()}
    assert {*choices["inbound"].pop("state")} == {state for state, _ in READ_STATES}
    assert {*choices["outbound"].pop("state")} == {state for state, _ in SHOWN_STATES}
    assert {*choices["events"].pop("kind")} == {*PartyEventKind}
    assert not any(choices.values())
