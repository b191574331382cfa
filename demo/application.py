"""The receiving application: the product's consumer in the demo.

Its table has no unique constraint, so that a second delivery would show.
"""

from hashlib import sha256
from typing import TYPE_CHECKING

from django.db import connection

if TYPE_CHECKING:  # the table is made by programs that have no settings of an MSH
    from msh.models import InboundMessage

TABLE = """
CREATE TABLE IF NOT EXISTS demo_received (
    serial bigserial PRIMARY KEY,
    pair text NOT NULL,
    message_id text NOT NULL,
    sha256 text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""


def consume(message: "InboundMessage") -> None:
    """Note what was delivered, in the transaction that delivers it."""
    payload = message.payloads.get()
    row = (message.link.partner.name, message.message_id, sha256(payload.content).hexdigest())
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO demo_received (pair, message_id, sha256) VALUES (%s, %s, %s)", row
        )
