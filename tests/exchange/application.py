"""The applications behind the MSH under test: they write down what they are given.

The MSH's worker calls them. One JSON object a line, in the file that EXCHANGE_JOURNAL names.
"""

import http.client
import json
import os
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.db import connection

from msh.models import Delivery, InboundMessage, PartyEvent

JOURNAL = "EXCHANGE_JOURNAL"


def consume(message: InboundMessage) -> None:
    """The To-Party: takes delivered messages. Its table is part of the delivery's transaction."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO exchange_taken (message_id) VALUES (%s)", [message.message_id])
    payloads = [bytes(payload.content).hex() for payload in message.payloads.all()]
    _write(kind="delivered", message_id=message.message_id, payloads=payloads)


def consume_slowly(message: InboundMessage) -> None:
    """Takes a message, and gives whoever would kill it before it is committed the time to."""
    consume(message)
    time.sleep(0.05)


def die(message: InboundMessage) -> None:
    """Takes a message, and the first time its process dies before the transaction is committed."""
    consume(message)
    journal = Path(os.environ[JOURNAL])
    if sum(e["message_id"] == message.message_id for e in entries(journal)) == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def resolve(delivery: Delivery) -> str:
    """Asks the outside system whether it has the message."""
    url = urlsplit(delivery.consumer.url)
    connection = http.client.HTTPConnection(url.netloc, timeout=10)
    try:
        connection.request("GET", f"/{delivery.message.message_id}")
        return "duplicate" if connection.getresponse().status == 200 else "new"
    finally:
        connection.close()


def hear(event: PartyEvent) -> None:
    """The From-Party: hears what became of its messages."""
    _write(kind=event.kind, message_id=event.message.message_id, detail=event.detail)


def entries(journal: Path) -> list[dict[str, Any]]:
    """What they wrote, oldest first."""
    if not journal.exists():
        return []
    return [json.loads(line) for line in journal.read_text().splitlines()]


def _write(**entry: Any) -> None:
    with Path(os.environ[JOURNAL]).open("a") as journal:
        journal.write(json.dumps(entry) + "\n")
