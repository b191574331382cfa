"""Acknowledgements and Error Messages that are owed."""

from .partner import ROUTE_COLUMNS

# One row per message: a flood of copies owes many signals and stays one row. While one of them is
# being carried, the next waits for it, but not for long: its worker may be dead.
OWE_SIGNAL = """
    INSERT INTO msh_signal
        (link_id, kind, ref_to_message_id, tpa_id, conversation_id, code, location, description,
         min_retry_secs, sequence_number, first_at, due, expires_at)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (link_id, kind, code, ref_to_message_id) DO UPDATE
    SET owed = msh_signal.owed + 1, expires_at = EXCLUDED.expires_at,
        description = EXCLUDED.description, min_retry_secs = EXCLUDED.min_retry_secs,
        sequence_number = EXCLUDED.sequence_number,
        due = CASE WHEN msh_signal.sending
                   THEN LEAST(msh_signal.due, EXCLUDED.due + interval '1 second')
                   ELSE EXCLUDED.due END
"""

# At most so many of a partner as it has free places, and none of a partner that has none.
LOCK_OWED_SIGNALS = f"""
    WITH owed AS (
        SELECT signal.id, link_id, due
        FROM msh_signal signal JOIN msh_inboundlink link ON link.id = signal.link_id
        WHERE owed > 0 AND due <= statement_timestamp() AND link.partner_id <> ALL(%s)
        ORDER BY due LIMIT 1000),
    candidate AS (
        SELECT id, row_number() OVER (PARTITION BY link_id ORDER BY due) AS place FROM owed)
    SELECT signal.id, signal.kind, signal.ref_to_message_id, signal.tpa_id,
           signal.conversation_id, signal.code, signal.location, signal.description,
           signal.min_retry_secs, signal.content_type, signal.body, {ROUTE_COLUMNS},
           EXISTS (
               SELECT FROM msh_inboundmessage message
               WHERE message.link_id = signal.link_id AND message.state = 'routed'
                 AND message.message_id = signal.ref_to_message_id) AS routed
    FROM msh_signal signal
    JOIN candidate ON candidate.id = signal.id
    JOIN msh_inboundlink link ON link.id = signal.link_id
    JOIN partners_partner partner ON partner.id = link.partner_id
    LEFT JOIN partners_ownidentity own ON true
    WHERE place <= %s AND owed > 0 AND due <= statement_timestamp()
    LIMIT %s
    FOR NO KEY UPDATE OF signal SKIP LOCKED
"""

CLAIM_SIGNAL = """
    UPDATE msh_signal
    SET sending = true, tries = tries + 1, due = %s, content_type = %s, body = %s WHERE id = %s
"""

SIGNAL_CARRIED = """
    UPDATE msh_signal
    SET owed = GREATEST(owed - 1, 0), carried = carried + 1, sending = false, tries = 0,
        due = statement_timestamp(), body = NULL, last_status = %s, last_detail = %s
    WHERE id = %s AND sending
"""

# Back-off doubles from a second to a minute, until the horizon is over.
SIGNAL_FAILED = """
    UPDATE msh_signal
    SET sending = false,
        due = statement_timestamp() + interval '1 second' * LEAST(60, 2 ^ LEAST(tries - 1, 10)),
        owed = CASE WHEN expires_at < statement_timestamp() THEN 0 ELSE owed END,
        body = CASE WHEN expires_at < statement_timestamp() THEN NULL ELSE body END,
        last_status = %s, last_detail = %s
    WHERE id = %s
"""

SIGNAL_REFUSED = """
    UPDATE msh_signal
    SET sending = false, owed = 0, body = NULL, last_status = %s, last_detail = %s
    WHERE id = %s
"""
