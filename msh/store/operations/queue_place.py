"""The messages before a message in the queue of its link."""

from dataclasses import dataclass
from datetime import datetime

from msh.store.engine import Statement, run

MOST = 1_000
"""Messages that are counted of each kind: nobody needs the exact number of more."""


@dataclass(frozen=True, slots=True)
class Place:
    """`rewound` and `queued` are at most MOST each."""

    rewound: int
    queued: int
    now: datetime


# In the order of the partial indexes. BETWEEN, for with `=` an index of ids alone would do for the
# order, and is read from its start.
_PLACE = """
    SELECT (SELECT count(*) FROM (
                SELECT FROM msh_outboundmessage
                WHERE link_id = %(link_id)s AND state = 'rewound'
                  AND (epoch, sequence_number) < (%(epoch)s, %(number)s)
                ORDER BY link_id, epoch, sequence_number LIMIT %(most)s) earlier) AS rewound,
           (SELECT count(*) FROM (
                SELECT FROM msh_outboundmessage
                WHERE link_id BETWEEN %(link_id)s AND %(link_id)s
                  AND state = 'queued' AND semantics = '{0}' AND id < %(before)s
                ORDER BY link_id, id LIMIT %(most)s) earlier) AS queued,
           statement_timestamp() AS now
"""
_RELIABLE = Statement(_PLACE.format("OnceAndOnlyOnce"), Place)
_BEST_EFFORT = Statement(_PLACE.format("BestEffort"), Place)

_AFTER_ALL = 2**31 - 1


def place_in_queue(link_id: int, key: int) -> Place:
    """The place of a message that was never sent: rewound messages go before the queue."""
    values = {"epoch": _AFTER_ALL, "number": _AFTER_ALL, "before": key}
    return run(_RELIABLE(link_id=link_id, most=MOST, **values))[0][0]


def place_of_rewound(link_id: int, epoch: int, number: int) -> Place:
    values = {"epoch": epoch, "number": number, "before": 0}
    return run(_RELIABLE(link_id=link_id, most=MOST, **values))[0][0]


def place_of_best_effort(link_id: int, key: int) -> Place:
    """They pass by what waits for the order of the link."""
    values = {"epoch": 0, "number": 0, "before": key}
    return run(_BEST_EFFORT(link_id=link_id, most=MOST, **values))[0][0]
