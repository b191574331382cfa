"""What is asked of the database of an MSH: its tables and states, and no code of the product."""

DELIVERIES = """
SELECT pair, message_id, sha256, extract(epoch FROM at)::float AS at
FROM demo_received ORDER BY serial
"""

# What is `forwarding` is seen as the message that it was sent on as.
OPEN = """
SELECT message_id, state FROM msh_outboundmessage WHERE state IN ('queued', 'in_flight', 'rewound')
UNION ALL
SELECT message.message_id, 'flying, ' || coalesce(flight.state, 'without a flight')
FROM msh_outboundmessage message LEFT JOIN msh_flight flight ON flight.message_id = message.id
WHERE message.state = 'flying'
UNION ALL
SELECT message_id, state FROM msh_inboundmessage
WHERE state IN ('accepted', 'held', 'routed', 'withheld', 'parked')
"""

ATTEMPTS = """
SELECT count(*) AS number FROM msh_attempt
"""

LANES = """
SELECT partner.name AS pair, link.state,
       (SELECT count(*) FROM msh_outboundmessage message
        LEFT JOIN msh_flight flight ON flight.message_id = message.id
        WHERE message.link_id = link.id AND message.state IN ('queued', 'in_flight', 'flying')
        AND flight.state IS DISTINCT FROM 'held'
       ) AS open_messages,
       extract(epoch FROM now() - least(
           link.due, (SELECT min(due) FROM msh_flight WHERE link_id = link.id)
       ))::float AS overdue,
       coalesce(extract(epoch FROM now() - greatest(
           (SELECT max(submitted_at) FROM msh_outboundmessage WHERE link_id = link.id),
           (SELECT max(greatest(attempt.claimed_at, attempt.ended_at))
            FROM msh_attempt attempt JOIN msh_outboundmessage message
                 ON message.id = attempt.message_id
            WHERE message.link_id = link.id),
           (SELECT max(at) FROM msh_history
            WHERE partner_id = partner.id AND direction = 'out')
       ))::float, 0) AS still,
       link.suspended_for = 'operator' OR EXISTS (
           SELECT FROM msh_incident incident
           WHERE incident.partner_id = partner.id AND incident.direction = 'out'
             AND incident.resolved_at IS NULL) AS open_incident,
       (SELECT count(*) FROM msh_flight flight
        WHERE flight.link_id = link.id AND flight.state = 'held' AND held_for <> 'operator'
       ) AS held
FROM msh_outboundlink link
JOIN partners_partner partner ON partner.id = link.partner_id
"""

# The incident is a row of the transaction that suspends; the second allows for two readings
# of the clock within it. An operator who suspends needs none.
SUSPENSIONS = """
SELECT partner.name AS pair,
       EXISTS (SELECT FROM msh_incident incident
               WHERE incident.partner_id = history.partner_id AND incident.direction = 'out'
                 AND incident.opened_at <= history.at + interval '1 second'
                 AND (incident.resolved_at IS NULL OR incident.resolved_at >= history.at)
       ) AS incident
FROM msh_history history JOIN partners_partner partner ON partner.id = history.partner_id
WHERE history.direction = 'out' AND (
    history.subject = 'link'
    AND history.to_state = 'suspended' AND history.from_state <> 'suspended'
    AND history.event <> 'OperatorSuspended'
 OR history.subject = 'message' AND history.to_state = 'held'
)
"""

HELD = """
SELECT DISTINCT message_id FROM msh_history
WHERE subject = 'message' AND direction = 'out' AND to_state = 'held'
"""
