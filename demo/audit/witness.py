"""What the receiving application was given, by its own table: it knows nothing of Spark."""

from dataclasses import dataclass

import psycopg

# An id is the number of its order with leading zeros, so the order of ids is that of orders.
_JUDGE = """
WITH first AS (
    SELECT pair, message_id COLLATE "C" AS message_id, min(serial) AS serial, count(*) AS copies
    FROM demo_received GROUP BY pair, message_id
), judged AS (
    SELECT copies, message_id < max(message_id) OVER (
        PARTITION BY pair ORDER BY serial ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS late FROM first
)
SELECT count(*), coalesce(sum(copies - 1), 0)::int, count(*) FILTER (WHERE late) FROM judged
"""


@dataclass(frozen=True, slots=True)
class Witness:
    delivered: int
    duplicated: int
    out_of_order: int


def ask(database_url: str) -> Witness:
    with psycopg.connect(database_url) as connection:
        row = connection.execute(_JUDGE).fetchone()
    assert row is not None
    return Witness(*row)
