"""History, incidents, events to the From-Party."""

WRITE_HISTORY = """
    INSERT INTO msh_history
        (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state, detail)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
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
