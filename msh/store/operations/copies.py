"""Messages that were submitted again, as they were or corrected: which one stands for which."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from msh.store.engine import Statement, run


@dataclass(frozen=True, slots=True)
class Received:
    """A message that the partner has, and for which the one with the id `key` was submitted."""

    key: int
    message_id: str
    at: datetime


# Along `corrects`, which is indexed by the primary key of what it names. UNION, not UNION ALL: a
# ring of messages, which nothing writes, would end.
_RECEIVED_BEFORE = Statement(
    """
    WITH RECURSIVE chain (key, at) AS (
        SELECT id, corrects_id FROM msh_outboundmessage
        WHERE id = ANY(%(keys)s) AND corrects_id IS NOT NULL
        UNION
        SELECT chain.key, earlier.corrects_id
        FROM chain JOIN msh_outboundmessage earlier ON earlier.id = chain.at
        WHERE earlier.corrects_id IS NOT NULL)
    SELECT DISTINCT ON (chain.key) chain.key, earlier.message_id, earlier.completed_at AS at
    FROM chain JOIN msh_outboundmessage earlier ON earlier.id = chain.at
    WHERE earlier.state = 'acknowledged'
       OR (earlier.state = 'cancelled' AND earlier.outcome = 'received')
    ORDER BY chain.key, earlier.id
""",
    Received,
)


def received_before(keys: Collection[int]) -> Mapping[int, Received]:
    """Return those of these outbound messages that are copies of a message which the partner has:
    the first such message, by the id of the copy."""
    if not keys:
        return {}
    (rows,) = run(_RECEIVED_BEFORE(keys=list(keys)))
    return {row.key: row for row in rows}
