"""What a partner takes of us: read before one of its messages is stored, where it has limits."""

from datetime import datetime
from typing import NamedTuple

from msh.protocol.admission import Limits, Usage
from msh.protocol.receiver import ReceivingLink

from . import hot

MOST = 100_000
"""Messages that are counted at most: more are no other case."""

_USAGE = """
    SELECT waiting.messages, waiting.bytes, (
        SELECT received_at FROM msh_inboundmessage
        WHERE link_id = %s AND epoch = %s AND sequence_number = %s) AS rate_reached_at
    FROM (
        SELECT count(*) AS messages, COALESCE(sum(part.bytes), 0)::bigint AS bytes
        FROM (
            SELECT id FROM msh_inboundmessage
            WHERE link_id = %s AND state = 'accepted' ORDER BY id LIMIT %s) message
        LEFT JOIN LATERAL (
            SELECT sum(octet_length(content)) AS bytes FROM msh_inboundpayload
            WHERE message_id = message.id) part ON true) waiting
"""

_DATABASE_SIZE = "SELECT pg_database_size(current_database()) AS bytes"


class _Row(NamedTuple):
    messages: int
    bytes: int
    rate_reached_at: datetime | None


def usage_of(link_id: int, link: ReceivingLink, limits: Limits) -> Usage:
    """What waits for its consumer, and when the message was accepted that is `rate` back."""
    back = (link.last_number or 0) - limits.rate + 1
    most = limits.undelivered_messages or (MOST if limits.undelivered_bytes else 0)
    ((row,),) = hot.run((_USAGE, (link_id, link.epoch, back, link_id, most)))
    read = _Row(*row)
    return Usage(read.messages, read.bytes, read.rate_reached_at if limits.rate else None)


def database_size() -> int:
    """Bytes of our database on its disk."""
    ((row,),) = hot.run((_DATABASE_SIZE, ()))
    return int(row.bytes)
