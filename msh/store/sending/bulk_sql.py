"""What a bulk submission asks: what its messages belong to, and which of them are known."""

from dataclasses import dataclass

from msh.store.engine import Statement


@dataclass(frozen=True, slots=True)
class KnownMessage:
    link_id: int
    message_id: str
    content_digest: bytes


@dataclass(frozen=True, slots=True)
class Parents:
    """What a message belongs to."""

    agreement_id: int
    link_id: int
    accepts: bool


# As INSERT of message_sql does it: see there.
LOCK_PARENTS = Statement(
    """
    SELECT agreement.id AS agreement_id, link.id AS link_id, partner.accepts
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

FIND_KNOWN = Statement(
    """
    SELECT known.link_id, known.message_id, known.content_digest
    FROM unnest(%(links)s::bigint[], %(message_ids)s::text[]) AS asked (link_id, message_id)
    JOIN msh_outboundmessage known USING (link_id, message_id)
    """,
    KnownMessage,
    binary=True,
)
