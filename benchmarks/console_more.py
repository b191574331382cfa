"""Rows for the console's benchmark, besides messages: what applications have taken and have not,
business keys, and what is counted of all of it."""

from collections.abc import Mapping

from msh.business_keys.models import KeyRule
from msh.models import Consumer

# The last messages from every 50th partner wait behind the first of them.
_UNDELIVERED = """
    UPDATE msh_inboundmessage message SET state = 'accepted', delivered_at = NULL
    FROM msh_inboundlink link JOIN bench_link bench ON bench.partner_id = link.partner_id
    WHERE message.link_id = link.id AND bench.place %% 50 = 7
      AND message.sequence_number > (SELECT max(sequence_number) FROM msh_inboundmessage
                                     WHERE link_id = link.id) / 2
"""
# All messages of another 50th partner are one conversation in order; half of it waits.
_IN_ORDER = """
    WITH conversation AS (
        INSERT INTO msh_inboundconversation (link_id, agreement_id, conversation_id, next_number,
                                             last_at)
        SELECT link.id, agreement.id, 'in-order', max(message.sequence_number) + 1, now()
        FROM bench_link bench
        JOIN msh_inboundlink link ON link.partner_id = bench.partner_id
        JOIN partners_agreement agreement ON agreement.partner_id = bench.partner_id
        JOIN msh_inboundmessage message ON message.link_id = link.id
        WHERE bench.place %% 50 = 8 GROUP BY link.id, agreement.id
        RETURNING id, link_id, conversation_id, next_number)
    UPDATE msh_inboundmessage message
    SET ordered_in_id = conversation.id, conversation_id = conversation.conversation_id,
        order_number = sequence_number, epoch = NULL, sequence_number = NULL,
        state = CASE WHEN sequence_number > next_number / 2 THEN 'accepted' ELSE state END,
        delivered_at = CASE WHEN sequence_number <= next_number / 2 THEN delivered_at END
    FROM conversation WHERE message.link_id = conversation.link_id
"""
_DELIVERIES = """
    INSERT INTO msh_delivery (consumer_id, message_id, state, attempt, failures, started_at,
                              ended_at, external_id, detail)
    SELECT consumer.id, message.id, 'completed', 1, 0, received_at, received_at,
           'order-' || message.id, ''
    FROM msh_inboundmessage message JOIN msh_consumer consumer ON consumer.name = 'orders'
    WHERE state = 'delivered' ORDER BY message.id
"""
_WAITING = """
    INSERT INTO msh_delivery (consumer_id, message_id, state, attempt, failures, started_at,
                              ended_at, external_id, detail)
    SELECT consumer.id, first.id,
           (ARRAY['blocked', 'parked', 'in_doubt'])[1 + first.link_id %% 3], 3, 3, now(), now(), '',
           '500 Internal Server Error'
    FROM (SELECT link_id, min(id) AS id FROM msh_inboundmessage WHERE state = 'accepted'
          GROUP BY link_id) first
    JOIN msh_consumer consumer ON consumer.name = 'orders'
"""
_LINKS = """
    UPDATE msh_inboundlink link SET last_number = last.number
    FROM (SELECT link_id, max(sequence_number) AS number FROM msh_inboundmessage GROUP BY link_id
         ) last WHERE last.link_id = link.id
"""
_KEYS = """
    INSERT INTO msh_businesskey (rule_id, {direction}_id, value)
    SELECT (SELECT min(id) FROM msh_keyrule), id, 'order-' || id FROM msh_{direction}message
"""
_COUNTED = """
    INSERT INTO msh_statistics (unit, begins, partner_id, agreement_id, submitted, acknowledged,
                                sent, received, bytes_out, bytes_in, retries, duplicates, failed,
                                rejected, delivery_failures, in_doubt)
    SELECT unit, date_trunc(unit, now(), 'UTC') - number * ('1 ' || unit)::interval, partner_id,
           agreement_id, times, times, 0, times, 2048 * times, 2048 * times, times / 20, times / 20,
           0, 0, 0, 0
    FROM (SELECT partner_id, id AS agreement_id, 1 AS of FROM partners_agreement
          UNION ALL SELECT NULL, NULL, count(*) FROM partners_agreement) counted
    CROSS JOIN (SELECT 'hour' AS unit, 1 AS hours, generate_series(0, 8 * 24 - 1) AS number
                UNION ALL SELECT 'day', 24, generate_series(0, 90)
                UNION ALL SELECT 'week', 168, generate_series(0, 13)) period
    CROSS JOIN LATERAL (SELECT 20 * of * hours AS times) busy
"""
_TIMES = """
    INSERT INTO msh_acknowledgementtime (slot_id, bucket, number)
    SELECT id, bucket, acknowledged / 2
    FROM msh_statistics CROSS JOIN (VALUES (30), (60)) AS of (bucket)
"""
_MINUTES = """
    INSERT INTO msh_statistics (unit, begins, partner_id, agreement_id, consumer_id, acknowledged,
                                received, delivered, waiting)
    SELECT 'minute', date_trunc('minute', now()) - number * interval '1 minute', partner_id,
           agreement_id, consumer_id, 20, 20, 20, waiting
    FROM (SELECT partner_id, id AS agreement_id, NULL::bigint AS consumer_id, NULL::int AS waiting
          FROM partners_agreement
          UNION ALL SELECT partner_id, NULL, NULL, 7 FROM msh_outboundlink
          UNION ALL SELECT NULL, NULL, id, 7 FROM msh_consumer
          UNION ALL SELECT NULL, NULL, NULL, 7000) counted
    CROSS JOIN generate_series(0, 119) number
"""
_SUSPENSIONS = """
    INSERT INTO msh_suspension (partner_id, began_at, ended_at)
    SELECT partner_id, now() - number * interval '1 day',
           CASE WHEN number > 0 THEN now() - number * interval '1 day' + interval '1 hour' END
    FROM msh_outboundlink CROSS JOIN generate_series(0, 5) number WHERE state = 'suspended'
"""
_PROGRESS = """
    INSERT INTO msh_statisticsprogress (id, history_id, attempt_id, up_to, next_history_id,
                                        next_attempt_id)
    SELECT 1, 0, 0, now(), 0, 0 ON CONFLICT (id) DO NOTHING
"""
FILLING: Mapping[str, str] = {
    "undelivered messages": _UNDELIVERED,
    "messages in order": _IN_ORDER,
    "deliveries": _DELIVERIES,
    "deliveries that stand still": _WAITING,
    "links from partners": _LINKS,
    "business keys, inbound": _KEYS.format(direction="inbound"),
    "business keys, outbound": _KEYS.format(direction="outbound"),
    "statistics": _COUNTED,
    "times to acknowledge": _TIMES,
    "minutes": _MINUTES,
    "suspensions": _SUSPENSIONS,
    "progress of statistics": _PROGRESS,
}
MAINTAINED = (
    *("delivery", "businesskey", "statistics", "acknowledgementtime", "suspension"),
    *("inboundlink", "inboundconversation"),
)


def add_consumer_and_rule() -> None:
    Consumer.objects.create(name="orders", kind="pull")
    KeyRule.objects.create(name="order", path="/Order/@id", inbound_before=0, outbound_before=0)
