"""The statements that store a new message, and that lock what a block of them belongs to."""

from dataclasses import dataclass
from datetime import datetime

from msh.store.engine import Statement
from msh.store.history import insert_one


@dataclass(frozen=True, slots=True)
class Inserted:
    """`is_behind`: others are queued before it on its link."""

    id: int
    link_id: int
    submitted_at: datetime
    is_behind: bool


@dataclass(frozen=True, slots=True)
class Parents:
    """What a message belongs to. `ended`: its agreement."""

    agreement_id: int
    link_id: int
    accepts: bool
    ended: bool


_MESSAGE_SUBMITTED = insert_one(
    at="submitted_at",
    partner_id="%(partner_id)s",
    direction="'out'",
    message_id="%(message_id)s",
    event="'MessageSubmitted'",
    to_state="'queued'",
)


PARTS = """
    SELECT message.id, part.*
    FROM message,
         unnest(%(positions)s::int[], %(content_types)s::text[], %(content_ids)s::text[],
                %(labels)s::text[], %(descriptions)s::text[], %(wires)b::bytea[],
                %(part_sizes)s::int[], %(sha256s)b::bytea[]) part
"""
ONE_PART = """
    SELECT id, 1, %(content_type)s, %(content_id)s, %(label)s, %(description)s, %(wire)s,
           %(part_size)s::int, %(sha256)s
    FROM message
"""
"""As usual: the arrays of one element would cost a quarter of all that the statement costs."""


# No row without a link in use, none for a MessageId that is known, none of an application where
# an operator has closed the partner to them, or the agreement has ended, or whose MessageId was
# known to one that is removed: what is forwarded is no application's. Prune moves an id from one
# table to the other in one transaction, so both are read by one snapshot: ON CONFLICT alone waits
# for the removal, finds no conflict any more, and does not see the id that is kept. There are no
# foreign keys to link and agreement: the locks make a deletion of either wait (migration 0001).
def inserting(state: str, parts: str, also: str = "") -> Statement[Inserted]:
    """Return the statement for a new message in this state, with PARTS or ONE_PART. `also`: what
    else is inserted for it, as a CTE."""
    return Statement(
        f"""
    WITH message AS (
        INSERT INTO msh_outboundmessage
            (link_id, agreement_id, message_id, semantics, state, conversation_id,
             service_interface, action, ref_to_message_id, submitted_at, content_digest, size,
             boundary, forwards_id, from_role, to_role, service_type)
        SELECT link.id, agreement.id, %(message_id)s::varchar, %(semantics)s, {state},
               %(conversation_id)s, %(service_interface)s, %(action)s, %(ref_to_message_id)s,
               statement_timestamp(), %(content_digest)s, %(size)s, %(boundary)s, given.forwards,
               %(from_role)s, %(to_role)s, %(service_type)s
        FROM (SELECT %(forwards_id)s::bigint AS forwards) given, msh_outboundlink link
        JOIN partners_partner partner ON partner.id = link.partner_id
        JOIN partners_agreement agreement ON agreement.id = %(agreement_id)s
        WHERE link.partner_id = %(partner_id)s AND partner.in_use
          AND (given.forwards IS NOT NULL OR partner.accepts
              AND (agreement.ends IS NULL OR agreement.ends > statement_timestamp())
              AND NOT EXISTS (
              SELECT FROM msh_submittedid
              WHERE link_id = link.id AND message_id = %(message_id)s)
              AND NOT EXISTS (
              SELECT FROM msh_outboundmessage
              WHERE link_id = link.id AND message_id = %(message_id)s))
        FOR KEY SHARE OF link, agreement
        ON CONFLICT (link_id, message_id) DO NOTHING
        RETURNING id, link_id, submitted_at, agreement_id, service_interface, service_type,
                  action),
    {also}
    parts AS (
        INSERT INTO msh_outboundpayload
            (message_id, position, content_type, content_id, label, description, wire, size,
             sha256)
        {parts}),
    entry AS (
        {_MESSAGE_SUBMITTED} FROM message)
    SELECT id, link_id, submitted_at,
           EXISTS (
               SELECT FROM msh_outboundmessage earlier
               WHERE earlier.link_id = message.link_id AND earlier.state = 'queued'
                 AND earlier.semantics = 'OnceAndOnlyOnce') AS is_behind
    FROM message
    """,
        Inserted,
    )


INSERT = inserting("'queued'", PARTS)
INSERT_WITH_ONE_PART = inserting("'queued'", ONE_PART)

# With the locks of INSERT: see there.
LOCK_PARENTS = Statement(
    """
    SELECT agreement.id AS agreement_id, link.id AS link_id, partner.accepts,
           COALESCE(agreement.ends <= statement_timestamp(), false) AS ended
    FROM partners_agreement agreement
    JOIN partners_partner partner ON partner.id = agreement.partner_id AND partner.in_use
    JOIN msh_outboundlink link ON link.partner_id = partner.id
    WHERE agreement.id = ANY(%(agreements)s)
    ORDER BY link.id
    FOR KEY SHARE OF link, agreement
    """,
    Parents,
    binary=True,
)
