"""A clock that was set back: what is due farther away than it can be is due now (D13)."""

import logging

from msh.models.link import lane_of
from msh.store.channel_columns import CHANNEL_OF_MESSAGE
from msh.store.engine import Write, run
from msh.store.sending import link_sql
from msh.store.sending.link_sql import LaneRow

logger = logging.getLogger(__name__)

FAR = "1 hour"
"""More than any back-off or lease of these."""

# Quiet hours last 8 days at most, a wait of the escalation one.
_HELD = """
    sent_at IS NULL AND NOT given_up AND held AND due > statement_timestamp() + interval '9 days'
"""
# Table, column of the due time, and which rows have one that counts.
_WAITING = (
    ("msh_signal", "due", "pending > 0"),
    ("msh_partyevent", "due", "delivered_at IS NULL"),
    ("msh_operatornotice", "due", "sent_at IS NULL AND NOT given_up AND NOT held"),
    ("msh_operatornotice", "due", _HELD),
    ("msh_incident", "next_turn", "next_turn > statement_timestamp() + interval '25 hours'"),
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
        WHERE delivery.state IN ('processing', 'failed', 'completed', 'rejected')
          AND delivery.due > statement_timestamp()
            + 2 * GREATEST(consumer.lease, consumer.retry_interval) * interval '1 second'
        FOR NO KEY UPDATE OF delivery SKIP LOCKED)
    UPDATE msh_delivery delivery
    SET due = statement_timestamp()
        + CASE state WHEN 'processing' THEN far.lease ELSE 0 END * interval '1 second'
    FROM far WHERE delivery.id = far.id
""")
# A flight waits no longer than its agreement says. The end of its life is as it was written.
_MAKE_FLIGHTS_DUE = Write(f"""
    WITH far AS (
        SELECT flight.message_id
        FROM msh_flight flight
        JOIN msh_outboundmessage message ON message.id = flight.message_id
        JOIN partners_agreement agreement ON agreement.id = message.agreement_id
        {CHANNEL_OF_MESSAGE}
        WHERE flight.state = 'waiting' AND flight.due > statement_timestamp() + %(far)s::interval
          AND flight.due > statement_timestamp() + interval '2 seconds'
              * GREATEST(COALESCE(channel.retry_interval, agreement.retry_interval),
                         agreement.transient_wait_limit)
        FOR NO KEY UPDATE OF flight SKIP LOCKED)
    UPDATE msh_flight flight SET due = statement_timestamp()
    FROM far WHERE flight.message_id = far.message_id
""")
_MAKE_PROBES_DUE = Write("""
    WITH far AS (
        SELECT link.id
        FROM msh_outboundlink link JOIN partners_partner partner ON partner.id = link.partner_id
        WHERE link.probe_due > statement_timestamp() + %(far)s::interval
            + interval '2 seconds' * GREATEST(partner.probe_interval, (
                SELECT max(retry_interval) FROM partners_agreement
                WHERE partner_id = partner.id))
        FOR NO KEY UPDATE OF link SKIP LOCKED)
    UPDATE msh_outboundlink link SET probe_due = statement_timestamp()
    FROM far WHERE link.id = far.id
""")


def make_far_work_due() -> None:
    run(
        *(statement(far=FAR) for statement in _MAKE_ALL_DUE),
        _MAKE_DELIVERIES_DUE(),
        _MAKE_FLIGHTS_DUE(far=FAR),
        _MAKE_PROBES_DUE(far=FAR),
    )
    (far,) = run(link_sql.FIND_FAR())
    if too_far := [row.partner_id for row in far if _is_too_far(row)]:
        run(link_sql.MAKE_DUE(partner_ids=too_far))


def _is_too_far(row: LaneRow) -> bool:
    try:
        return lane_of(row, row if row.in_flight_id else None).is_due(row.now)
    except ValueError:
        logger.exception("the link to partner %d cannot be read", row.partner_id)
        return False
