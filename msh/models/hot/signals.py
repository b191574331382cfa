"""Acknowledgements and Error Messages that are owed."""

from .journal import INSERT_UNLESS_COUNTED, LIKE_THE_NEW_ROW, NEW_ROW
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

_OWED_COLUMNS = f"""
    SELECT signal.id, signal.kind, signal.ref_to_message_id, signal.tpa_id,
           signal.conversation_id, signal.code, signal.location, signal.description,
           signal.min_retry_secs, signal.content_type, signal.body, {ROUTE_COLUMNS},
           EXISTS (
               SELECT FROM msh_inboundmessage message
               WHERE message.link_id = signal.link_id AND message.state = 'routed'
                 AND message.message_id = signal.ref_to_message_id) AS routed
"""
_OWED_TO = """
    CROSS JOIN LATERAL (
        SELECT partner.* FROM msh_inboundlink link
        JOIN partners_partner partner ON partner.id = link.partner_id
        WHERE link.id = signal.link_id OFFSET 0) partner
    LEFT JOIN partners_ownidentity own ON true
"""

# The links to which something is owed are read by leaps from one to the next. Of these the ones
# whose first signal is due longest, of each link at most so many as its partner has free places:
# the first of each, then the second of each, and so on. None of a partner that has no free place.
LOCK_OWED_SIGNALS = f"""
    WITH RECURSIVE head (link_id, due) AS (
        (SELECT link_id, due FROM msh_signal WHERE owed > 0 ORDER BY link_id, due LIMIT 1)
        UNION ALL
        SELECT next.link_id, next.due FROM head CROSS JOIN LATERAL (
            SELECT link_id, due FROM msh_signal
            WHERE owed > 0 AND link_id > head.link_id ORDER BY link_id, due LIMIT 1) next),
    chosen AS (
        SELECT head.link_id, head.due FROM head CROSS JOIN LATERAL (
            SELECT partner_id FROM msh_inboundlink WHERE id = head.link_id OFFSET 0) link
        WHERE head.due <= statement_timestamp() AND link.partner_id <> ALL(%s)
        ORDER BY head.due LIMIT %s),
    candidate AS (
        SELECT first.id FROM chosen CROSS JOIN LATERAL unnest(ARRAY(
            SELECT id FROM msh_signal
            WHERE link_id = chosen.link_id AND owed > 0 AND due <= statement_timestamp()
            ORDER BY due LIMIT %s)) WITH ORDINALITY first (id, place)
        ORDER BY first.place, chosen.due)
    {_OWED_COLUMNS}
    FROM candidate CROSS JOIN LATERAL (
        SELECT * FROM msh_signal
        WHERE id = candidate.id AND owed > 0 AND due <= statement_timestamp()
        FOR NO KEY UPDATE SKIP LOCKED) signal
    {_OWED_TO}
    LIMIT %s
"""

LOCK_OWED_SIGNAL = f"""{_OWED_COLUMNS}
    FROM msh_signal signal
    {_OWED_TO}
    WHERE signal.id = %s AND owed > 0 AND due <= statement_timestamp()
    FOR NO KEY UPDATE OF signal SKIP LOCKED
"""

CLAIM_SIGNAL = """
    UPDATE msh_signal
    SET sending = true, tries = tries + 1, due = %s, content_type = %s, body = %s WHERE id = %s
"""

# With its history, of which only a repetition is looked up. The parameters of WRITE_HISTORY follow.
SIGNAL_CARRIED = f"""
    WITH carried AS (
        UPDATE msh_signal
        SET owed = GREATEST(owed - 1, 0), carried = carried + 1, sending = false, tries = 0,
            due = statement_timestamp(), body = NULL, last_status = %s, last_detail = %s
        WHERE id = %s AND sending RETURNING carried),
    {NEW_ROW},
    counted AS (
        UPDATE msh_history
        SET times = times + 1, last_at = GREATEST(at, last_at, (SELECT at FROM new))
        WHERE (SELECT carried FROM carried) > 1 AND id = ({LIKE_THE_NEW_ROW}) RETURNING id)
    {INSERT_UNLESS_COUNTED}
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
