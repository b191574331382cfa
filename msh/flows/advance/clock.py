"""A clock that was set back: what is due farther away than it can be is due now (D13).

Lanes see to that themselves: `protocol.lane.Lane.is_due`.
"""

from msh.models import hot

FAR = "1 hour"
"""More than any back-off or lease of these."""

# Table, column of the due time, and which rows have one that counts.
_WAITING = (
    ("msh_signal", "due", "owed > 0"),
    ("msh_partyevent", "due", "delivered_at IS NULL"),
    ("msh_operatornotice", "due", "told_at IS NULL AND NOT given_up"),
    ("msh_outboundmessage", "due", "semantics = 'BestEffort' AND state = 'in_flight'"),
    ("msh_inboundmessage", "forward_due", "state IN ('routed', 'withheld')"),
)
_BRING_BACK = """
    UPDATE {0} SET {1} = statement_timestamp() WHERE id IN (
        SELECT id FROM {0} WHERE {2} AND {1} > statement_timestamp() + %s::interval
        FOR NO KEY UPDATE SKIP LOCKED)
"""
# A consumer's waits are its own. Who works on a message now keeps a whole lease: it is not lost.
_BRING_DELIVERIES_BACK = """
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
"""


def bring_back_due() -> None:
    """Have everything that waits for a time that is too far away done now."""
    hot.run(
        *((_BRING_BACK.format(*what), (FAR,)) for what in _WAITING), (_BRING_DELIVERIES_BACK, ())
    )
