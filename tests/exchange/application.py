"""The applications behind the MSH under test: they write down what they are given.

The MSH's worker calls them. One JSON object a line, in the file that EXCHANGE_JOURNAL names.
"""

import json
import os
from pathlib import Path
from typing import Any

from django.db import connection

from msh.models import InboundMessage, PartyEvent

JOURNAL = "EXCHANGE_JOURNAL"


def consume(message: InboundMessage) -> None:
    """The To-Party: takes delivered messages. Its table is part of the delivery's transaction."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO exchange_taken VALUES (%s)", [message.message_id])
    payloads = [bytes(payload.content).hex() for payload in message.payloads.all()]
    _write(kind="delivered", message_id=message.message_id, payloads=payloads)


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
