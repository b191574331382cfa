"""The MSH under test from both sides: what a Spark user gives the bridge, what its rows say."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from django.db.models import QuerySet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from msh.models import OutboundMessage
from spark_bridge.client import Client
from spark_bridge.options import read_options
from tests.exchange.machine import Machine
from tests.exchange.pair import Pair, new_pair

MESSAGES = "order_no long, tpa_id string, payload string"


class Office:
    """A `with` block: its partners are closed at the end."""

    def __init__(self, msh: Machine, token_file: Path) -> None:
        self.msh = msh
        self.token_file = token_file
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        return self.msh.url.removesuffix("/ebxml/")

    @property
    def options(self) -> dict[str, str]:
        return {"url": self.url, "tokenFile": str(self.token_file)}

    def payload(self, message_id: str, number: int) -> bytes:
        """As the API gives it."""
        with Client(read_options(self.options, stream=False).server) as client:
            return client.get_bytes(f"messages/{quote(message_id, safe='')}/payloads/{number}")

    def pair(self, **terms: Any) -> Pair:
        """A partner that is up and acknowledges, unless told otherwise."""
        made = new_pair(self.msh, **{"acknowledges": True, "timeout": 30} | terms)
        self._stack.callback(made.close)
        return made

    def silent_pair(self) -> Pair:
        """A partner that sending is suspended to: what is submitted stays in the queue."""
        made = self.pair()
        made.suspend()
        return made


def submitted(*pairs: Pair) -> QuerySet[OutboundMessage]:
    """What the MSH holds for these partners, in the order in which it will send."""
    links = [pair.link.pk for pair in pairs]
    return OutboundMessage.objects.filter(link__in=links).order_by("pk")


def orders(spark: SparkSession, pairs: list[Pair], count: int, partitions: int = 2) -> DataFrame:
    """`count` messages, for the pairs in turn, with column `order_no`, which is the label too."""
    tpa_ids = [pair.agreement.tpa_id for pair in pairs]
    rows = [(n, tpa_ids[n % len(tpa_ids)], f"<Order no='{n}'/>") for n in range(count)]
    return (
        spark.createDataFrame(rows, MESSAGES)
        .repartition(partitions)
        .selectExpr("*", "'Orders' AS service_interface", "'New' AS action")
        .withColumn("label", col("order_no").cast("string"))
    )


def load(messages: DataFrame, office: Office, form: str = "ebxml", **options: Any) -> None:
    """As a user writes it, the ids from `order_no` unless told otherwise."""
    given = office.options | {name: str(value) for name, value in options.items()}
    if "idColumn" not in given and "keyColumns" not in given:
        given = {"keyColumns": "tpa_id,order_no", "jobId": "job"} | given
    messages.write.format(form).mode("append").options(**given).save()
