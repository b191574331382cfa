"""The next message of a pair, accepted in one statement that proves what was decided by."""

from dataclasses import dataclass

from msh.store.engine import Statement
from msh.store.partner_columns import PARTNER_IN_VERSION

from .message_sql import (
    AGREEMENT_IN_VERSION,
    ONE_PAYLOAD,
    PAYLOADS,
    Accepted,
    insert_message,
    message_arrived,
)


@dataclass(frozen=True, slots=True)
class AcceptedInVersion(Accepted):
    """`version`: that of the link, as this has written it."""

    version: str


AGREEMENT_UNCHANGED = f"""
    EXISTS (
        SELECT {AGREEMENT_IN_VERSION}
          AND NOT EXISTS (
              SELECT FROM partners_route
              WHERE to_party = agreement.our_party
                AND to_party_context IN ('', agreement.our_party_context)))
"""
"""The agreement is as it was read, and its messages are still ours: there is no route."""


# Without a lock: its number, the message with its payloads, its history and the Acknowledgement
# that is pending for it, if everything is still in the version by which it was decided.
# The Acknowledgement is claimed for the worker that a wake-up will name it to; after a second, the
# sweep claims it.
# xmin is the transaction that wrote the row last. Whoever changes without this row what was decided
# by has to write the row nevertheless (docs/decisions/2026-11-21-at-once.md), or the guard here has
# to name it (docs/decisions/2026-11-23-one-statement.md).
def _accept_if_unchanged(payloads: str) -> Statement[AcceptedInVersion]:
    stored = insert_message(
        payloads,
        source="FROM link",
        link_id="id",
        agreement_id="%(agreement_id)s",
        state="'accepted'",
        epoch="%(epoch)s",
        sequence_number="%(sequence_number)s",
        received_at="statement_timestamp()",
    )
    return Statement(
        f"""
    WITH link AS (
        UPDATE msh_inboundlink
        SET last_number = %(last_number)s, epoch = %(epoch)s,
            highest_number = GREATEST(highest_number, %(ended_run)s),
            reset_allowed = %(reset_allowed)s, last_message_id = %(message_id)s
        WHERE id = %(link_id)s AND xmin = %(version)s
          AND {PARTNER_IN_VERSION} AND {AGREEMENT_UNCHANGED}
        RETURNING id, xmin::text AS version),
    {stored},
    entry AS (
        {message_arrived("%(detail)s")} FROM link),
    signal AS (
        INSERT INTO msh_signal
            (link_id, kind, ref_to_message_id, tpa_id, conversation_id, code, location,
             description, min_retry_secs, sequence_number, first_at, due, expires_at, sending,
             tries, inbound_id)
        SELECT link.id, 'Acknowledgement', %(message_id)s, %(tpa_id)s, %(conversation_id)s, '', '',
               '', NULL, %(sequence_number)s, statement_timestamp(),
               statement_timestamp() + interval '1 second',
               statement_timestamp() + %(horizon)s * interval '1 second', true, 1,
               message.id
        FROM link, message
        RETURNING id)
    SELECT signal.id AS signal_id, link.version,
           EXISTS (SELECT FROM msh_consumer WHERE enabled AND kind <> 'pull') AS pushes
    FROM signal, link
    """,
        AcceptedInVersion,
    )


ACCEPT_IF_UNCHANGED = _accept_if_unchanged(ONE_PAYLOAD)
"""For a message with one payload, which most have: six arrays of one element would cost a quarter
of the statement's CPU time on this side."""
ACCEPT_PAYLOADS_IF_UNCHANGED = _accept_if_unchanged(PAYLOADS)
