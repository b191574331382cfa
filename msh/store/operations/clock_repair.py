"""A clock that was set back: what is due farther away than it can be is due now (D13)."""

import logging

from msh.models.link import lane_of
from msh.store.engine import Write, run
from msh.store.sending import link_sql
from msh.store.sending.link_sql import LaneRow

logger = logging.getLogger(__name__)

FAR = "1 hour"
"""More than any back-off or lease of these."""

# Table, column of the due time, and which rows have one that counts.
_WAITING = (
    ("msh_signal", "due", "pending > 0"),
    ("msh_partyevent", "due", "delivered_at IS NULL"),
    ("msh_operatornotice", "due", "sent_at IS NULL AND NOT given_up"),
    ("msh_outboundmessage", "due", "semantics = 'BestEffort' AND state = 'in_flight'"),
    ("msh_inboundmessage", "forward_due", "state IN ('routed', 'withheld')"),
)
_MAKE_DUE = """
    UPDATE {0} SET {1} = statement_timestamp() WHERE id IN (
        SELECT id FROM {0} WHERE {2} AND {1} > statement_timestamp() + %(far)s::interval
        FOR NO KEY UPDATE SKIP LOCKED)
"""
_MAKE_ALL_DUE = [Write(_MAKE_DUE.format(*table)) for table in _WAITING]
# A consumer's waits are its own. Who works on a message now keeps a whole lease: it is not lost.
_MAKE_DELIVERIES_DUE = Write("""
    WITH far AS (
        SELECT delivery.id, consumer.lease
        FROM msh_delivery delivery JOIN msh_consumer consumer ON consumer.id = consumer_id
        WHERE delivery.due > statement_timestamp()
            + 2 * GREATEST(consumer.lease, consumer.retry_interval) * interval '1 second'
        FOR NO KEY UPDATE OF delivery SKIP LOCKED)
    UPDATE msh_delivery delivery
    SET due = statement_timestamp()
        + CASE state WHEN 'processing' THEN far.lease ELSE 0 END * interval '1 second'
    FROM far WHERE delivery.id = far.id
""")


def make_far_work_due() -> None:
    run(*(statement(far=FAR) for statement in _MAKE_ALL_DUE), _MAKE_DELIVERIES_DUE())
    (far,) = run(link_sql.FIND_FAR())
    if too_far := [row.partner_id for row in far if _is_too_far(row)]:
        run(link_sql.MAKE_DUE(partner_ids=too_far))


def _is_too_far(row: LaneRow) -> bool:
    try:
        return lane_of(row, row if row.in_flight_id else None).is_due(row.now)
    except ValueError:
        logger.exception("the link to partner %d cannot be read", row.partner_id)
        return False
