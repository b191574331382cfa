"""History, incidents, events to the From-Party."""

WRITE_HISTORY = """
    INSERT INTO msh_history
        (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state, detail)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

NEW_ROW = """
    new (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state, detail)
    AS (VALUES (%s::timestamptz, %s::text, %s::bigint, %s::text, %s::text, %s::text, %s::text,
                %s::text, %s::text, %s::text))
"""
# A partner may repeat a message a million times. Only the newest rows of the message are looked
# at, so that one of many rows costs no more than one of few.
LIKE_THE_NEW_ROW = """
    SELECT id FROM (
        SELECT * FROM msh_history
        WHERE message_id = (SELECT message_id FROM new) ORDER BY id DESC LIMIT 20) recent
    WHERE (partner_id, direction, subject, event, actor, from_state, to_state, detail)
        = (SELECT partner_id, direction, subject, event, actor, from_state, to_state, detail
           FROM new)
      AND at >= date_trunc('minute', (SELECT at FROM new))
    ORDER BY id DESC LIMIT 1
"""
INSERT_UNLESS_COUNTED = """
    INSERT INTO msh_history
        (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state, detail)
    SELECT * FROM new WHERE NOT EXISTS (SELECT FROM counted)
"""

# What may come again and again: one row for each minute, which counts. Its parameters are those of
# WRITE_HISTORY.
COUNT_HISTORY = f"""
    WITH {NEW_ROW},
    counted AS (
        UPDATE msh_history
        SET times = times + 1, last_at = GREATEST(at, last_at, (SELECT at FROM new))
        WHERE id = ({LIKE_THE_NEW_ROW}) RETURNING id)
    {INSERT_UNLESS_COUNTED}
"""

OPEN_INCIDENT = """
    INSERT INTO msh_incident (partner_id, direction, kind, message_id, detail, opened_at, last_at)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (partner_id, direction, kind) WHERE resolved_at IS NULL
    DO UPDATE SET count = msh_incident.count + 1, last_at = EXCLUDED.last_at,
                  detail = EXCLUDED.detail, message_id = EXCLUDED.message_id
"""

RESOLVE_INCIDENTS = """
    UPDATE msh_incident SET resolved_at = %s, resolved_by = %s, resolution = %s
    WHERE partner_id = %s AND direction = 'out' AND resolved_at IS NULL
"""

NOTIFY_FROM_PARTY = """
    INSERT INTO msh_partyevent (event_id, message_id, kind, detail, at, due)
    VALUES (gen_random_uuid(), %s, %s, %s, %s, %s)
"""

NOTE_ON_INCIDENTS = """
    UPDATE msh_incident SET detail = detail || %s
    WHERE partner_id = %s AND direction = 'out' AND message_id = %s
"""
