"""Rows for the console's benchmark, made by the database itself: what a busy month leaves behind.

Half of the messages go out, half came in. On each link that has any, one message is in flight and
the last ones are queued behind it; three links of ten are suspended, with an incident, and another
has a backlog. What applications have not taken, and what is counted: `console_more.py`.
"""

from collections.abc import Callable

from django.db import connection

from partners.models import Agreement, Partner

from . import console_more

QUEUED = 9
"""Messages of a link that wait behind the one in flight. It has at least twice as many."""
BACKLOG = 20_000
BEHIND = 5
"""The link that has it."""

_OUTBOUND = """
    INSERT INTO msh_outboundmessage
        (link_id, agreement_id, message_id, semantics, state, conversation_id, service_interface,
         action, ref_to_message_id, submitted_at, content_digest, size, boundary, epoch,
         sequence_number, terms, first_sent_at, completed_at)
    SELECT link.id, agreement.id, 'out-' || number, 'OnceAndOnlyOnce', placed.state,
           'conversation-' || number / 5, 'Orders', 'New', '', placed.at, '\\x00', 2048,
           'boundary', CASE WHEN placed.state <> 'queued' THEN 1 END,
           CASE WHEN placed.state <> 'queued' THEN ordinal END,
           CASE WHEN placed.state <> 'queued' THEN %(terms)s::jsonb END,
           CASE WHEN placed.state <> 'queued' THEN placed.at END,
           CASE WHEN placed.state = 'acknowledged' THEN placed.at END
    FROM generate_series(0, %(count)s - 1) number
    CROSS JOIN LATERAL (SELECT number / %(partners)s + 1 AS ordinal,
                               number %% %(partners)s AS place) ranked
    JOIN bench_link link ON link.place = ranked.place
    JOIN partners_agreement agreement ON agreement.partner_id = link.partner_id
    CROSS JOIN LATERAL (
        SELECT CASE WHEN left_over > %(queued)s THEN 'acknowledged'
                    WHEN left_over = LEAST(%(queued)s, ordinals - 1) THEN 'in_flight'
                    ELSE 'queued' END AS state,
               now() - (%(count)s - number) * interval '30 days' / %(count)s AS at
        FROM (SELECT ordinals, ordinals - ordinal AS left_over
              FROM (SELECT (%(count)s - 1 - ranked.place) / %(partners)s + 1 AS ordinals) all_of
             ) position) placed
    ORDER BY number
"""
_INBOUND = """
    INSERT INTO msh_inboundmessage
        (link_id, agreement_id, message_id, semantics, state, epoch, sequence_number,
         conversation_id, service_interface, action, ref_to_message_id, sent_at, received_at,
         content_digest, header, delivered_at)
    SELECT link.id, agreement.id, 'in-' || number, 'OnceAndOnlyOnce', 'delivered', 1,
           number / %(partners)s + 1, 'conversation-' || number / 5, 'Orders', 'New', '',
           placed.at, placed.at, '\\x00', '\\x00', placed.at
    FROM generate_series(0, %(count)s - 1) number
    JOIN bench_link out_link ON out_link.place = number %% %(partners)s
    JOIN msh_inboundlink link ON link.partner_id = out_link.partner_id
    JOIN partners_agreement agreement ON agreement.partner_id = link.partner_id
    CROSS JOIN LATERAL (
        SELECT now() - (%(count)s - number) * interval '30 days' / %(count)s AS at) placed
    ORDER BY number
"""
_HISTORY = """
    INSERT INTO msh_history (at, actor, partner_id, direction, subject, message_id, event,
                             from_state, to_state, detail)
    SELECT event_row.at, 'msh', link.partner_id, event_row.direction, 'message',
           event_row.message_id, event_row.event, event_row.before, event_row.after, ''
    FROM (
        SELECT submitted_at AS at, link_id, 'out' AS direction, message_id,
               'MessageSubmitted' AS event, '' AS before, 'queued' AS after
        FROM msh_outboundmessage
        UNION ALL
        SELECT completed_at, link_id, 'out', message_id, 'AckReceived', 'in_flight', 'acknowledged'
        FROM msh_outboundmessage WHERE completed_at IS NOT NULL) event_row
    JOIN msh_outboundlink link ON link.id = event_row.link_id
    UNION ALL
    SELECT received_at, 'msh', link.partner_id, 'in', 'message', message_id, 'MessageArrived', '',
           'accepted', ''
    FROM msh_inboundmessage message JOIN msh_inboundlink link ON link.id = message.link_id
    ORDER BY 1
"""
_ATTEMPTS = """
    INSERT INTO msh_attempt (message_id, number, claimed_at, ended_at, outcome, status, detail,
                             reason)
    SELECT id, 1, first_sent_at, first_sent_at, 'transmitted', 204, '204 No Content',
           'no_acknowledgement'
    FROM msh_outboundmessage WHERE first_sent_at IS NOT NULL ORDER BY id
"""
_LINKS = """
    UPDATE msh_outboundlink link
    SET in_flight_id = flying.id, next_number = flying.sequence_number + 1, attempt = 1,
        state = CASE WHEN bench.place %% 10 < 3 THEN 'suspended' ELSE 'waiting' END,
        due = CASE WHEN bench.place %% 10 >= 3 THEN now() + interval '1 minute' END,
        suspended_since = CASE WHEN bench.place %% 10 < 3 THEN now() END,
        suspended_for = CASE WHEN bench.place %% 10 < 3 THEN 'retries_spent' ELSE '' END,
        retries_spent = CASE WHEN bench.place %% 10 < 3 THEN 3 ELSE 0 END
    FROM msh_outboundmessage flying, bench_link bench
    WHERE flying.link_id = link.id AND flying.state = 'in_flight' AND bench.id = link.id
"""
_INCIDENTS = """
    INSERT INTO msh_incident (partner_id, direction, kind, message_id, detail, count, opened_at,
                              last_at)
    SELECT partner_id, 'out', 'retries_spent', '', 'no Acknowledgement after 4 transmissions', 1,
           now(), now()
    FROM msh_outboundlink WHERE state = 'suspended'
"""
_RESOLVED = """
    INSERT INTO msh_incident (partner_id, direction, kind, message_id, detail, count, opened_at,
                              last_at, resolved_at, resolved_by, announced)
    SELECT partner_id, 'out', 'retries_spent', '', 'no Acknowledgement after 4 transmissions', 1,
           at, at, at, 'ann', true
    FROM bench_link CROSS JOIN generate_series(1, %(resolved)s) number
    CROSS JOIN LATERAL (SELECT now() - number * interval '1 day' AS at) placed
"""
# The partner of each answer: as many causes as a bad day has.
_ANSWERS = """
    INSERT INTO msh_attempt (message_id, number, claimed_at, ended_at, outcome, status, detail,
                             reason)
    SELECT link.in_flight_id, number, link.suspended_since, link.suspended_since, answer.outcome,
           answer.status, answer.detail, answer.reason
    FROM msh_outboundlink link
    JOIN bench_link bench ON bench.id = link.id
    JOIN (VALUES (0, 'doubted', 401, '401 Unauthorized', 'credentials'),
                 (1, 'doubted', 503, '503 Service Unavailable', 'unavailable'),
                 (2, 'failed', NULL, 'Cannot connect to 192.0.2.7:443: No route to host',
                  'connection')
         ) answer (place, outcome, status, detail, reason) ON answer.place = bench.place %% 10
    CROSS JOIN generate_series(2, 4) number
    WHERE link.state = 'suspended'
"""
_BACKLOG = """
    INSERT INTO msh_outboundmessage
        (link_id, agreement_id, message_id, semantics, state, conversation_id, service_interface,
         action, ref_to_message_id, submitted_at, content_digest, size, boundary)
    SELECT link.id, agreement.id, 'backlog-' || number, 'OnceAndOnlyOnce', 'queued',
           'conversation-backlog', 'Orders', 'New', '', now(), '\\x00', 2048, 'boundary'
    FROM bench_link link JOIN partners_agreement agreement ON agreement.partner_id = link.partner_id
    CROSS JOIN generate_series(1, %(backlog)s) number
    WHERE link.place = %(behind)s
"""
_TERMS = (
    '{"timeout": 60, "retries": 3, "retry_interval": 60, "transient_count_limit": 10,'
    ' "transient_time_limit": 3600, "transient_wait_limit": 600, "early_warning": 0}'
)
_EMPTY = """
    SET synchronous_commit = off;
    SET session_replication_role = replica; -- foreign keys are not checked row by row
    TRUNCATE msh_history, msh_attempt, msh_incident, msh_inboundmessage,
             msh_outboundmessage, msh_outboundlink, msh_inboundlink, msh_delivery, msh_businesskey,
             msh_statistics, msh_suspension RESTART IDENTITY CASCADE;
    INSERT INTO msh_outboundlink (partner_id, state)
        SELECT id, 'idle' FROM partners_partner ORDER BY id;
    INSERT INTO msh_inboundlink (partner_id) SELECT id FROM partners_partner ORDER BY id;
    DROP TABLE IF EXISTS bench_link;
    CREATE TABLE bench_link AS
        SELECT id, partner_id, row_number() OVER (ORDER BY id) - 1 AS place FROM msh_outboundlink;
"""
_MINUTES = """
    INSERT INTO msh_statistics
        (unit, begins, submitted, acknowledged, sent, received, bytes_out, bytes_in, retries,
         duplicates, failed, rejected, delivery_failures, in_doubt)
    SELECT 'minute', date_trunc('minute', at), 0, count(*) FILTER (WHERE to_state = 'acknowledged'),
           0, count(*) FILTER (WHERE event = 'MessageArrived'), 0, 0, 0, 0, 0, 0, 0, 0
    FROM msh_history WHERE at > now() - interval '1 day' GROUP BY 2
"""
_FILLING = {
    "outbound messages": _OUTBOUND,
    "inbound messages": _INBOUND,
    "history": _HISTORY,
    "attempts": _ATTEMPTS,
    "links": _LINKS,
    "answers": _ANSWERS,
    "backlog": _BACKLOG,
    "incidents": _RESOLVED,
    "open incidents": _INCIDENTS,
    "minutes": _MINUTES,
    **console_more.FILLING,
}
_MAINTAINED = (
    *("outboundmessage", "inboundmessage", "history", "attempt", "outboundlink", "incident"),
    *console_more.MAINTAINED,
)


def add_partners(count: int) -> None:
    """Each with an agreement."""
    partners = Partner.objects.bulk_create(
        Partner(
            name=f"partner-{n:04}",
            uri=f"http://p{n}.example/",
            uri_normalised=f"http://p{n}.example/",
            in_use=True,
        )
        for n in range(count)
    )
    Agreement.objects.bulk_create(
        Agreement(partner=p, tpa_id="tpa-1", our_party="111", their_party="222") for p in partners
    )
    console_more.add_consumer_and_rule()


def fill(messages: int, tell: Callable[[str], None]) -> None:
    """Instead of what was there before. `tell` is given a line of progress for each step."""
    with connection.cursor() as cursor:
        cursor.execute(_EMPTY)
        cursor.execute("SELECT count(*) FROM bench_link")
        (partners,) = cursor.fetchone()
        given = {
            "count": messages // 2,
            "partners": min(partners, messages // 2 // (2 * QUEUED)),
            "queued": QUEUED,
            "terms": _TERMS,
            "backlog": min(BACKLOG, messages // 50),
            "behind": BEHIND,
            "resolved": 20,
        }
        for what, statement in _FILLING.items():
            tell(f"{messages} messages: filling {what}")
            cursor.execute(statement, given)
        for name in _MAINTAINED:
            tell(f"{messages} messages: vacuuming {name}")
            cursor.execute(f"VACUUM ANALYZE msh_{name}")
        cursor.execute("SET session_replication_role = origin")
