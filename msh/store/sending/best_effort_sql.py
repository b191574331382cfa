"""BestEffort messages: outside the order of their link, one attempt each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from msh.store.channel_columns import CHANNEL_OF_MESSAGE, terms
from msh.store.engine import Key, Statement, Write

from .message_sql import COPIES, CopyRow


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A queued BestEffort message, locked. `size`: bytes of payload."""

    id: int
    message_id: str
    size: int
    partner_id: int


@dataclass(frozen=True, slots=True)
class BestEffortCopy:
    """The copy of a BestEffort message, by the row id `key`. With an `agreement_id` the answer to
    it is read."""

    key: int
    message_id: str
    partner_id: int
    agreement_id: int | None = None
    writes_link: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class KeyAndState:
    id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEffortRow(CopyRow):
    """With what only some dialects write. No answer on the connection is asked for."""

    agreement_id: int
    dialect: str
    our_role: str
    their_role: str
    service_type: str
    ack: str
    ack_actor: str
    ack_signed: bool
    signed: bool
    signature_method: str
    eliminates: str
    sync_reply: str
    soap_action: str
    channel_address: str | None
    encrypted: bool
    encryption_method: str
    encryption_certificate: str
    content_types: Sequence[str] | None


LOAD_BEST_EFFORT = Statement(
    COPIES.format(
        f"msh_outboundmessage message {CHANNEL_OF_MESSAGE}",
        "message.id = ANY(%(ids)s)",
        f"""
           agreement.id AS agreement_id, agreement.dialect, message.from_role AS our_role,
           message.to_role AS their_role, message.service_type, 'none' AS sync_reply,
           {terms("ack", "ack_actor", "eliminates", "soap_action", "signed", "ack_signed")},
           {terms("signature_method", "encrypted")}, channel.address AS channel_address,
           agreement.encryption_method,
           COALESCE(NULLIF(agreement.encryption_certificate, ''), agreement.certificate)
               AS encryption_certificate,
           part.content_types,
        """,
    ),
    BestEffortRow,
    binary=True,
)

LEASE = Write("""
    UPDATE msh_outboundmessage SET state = 'in_flight', due = %(until)s WHERE id = %(key)s
""")

# The links that have queued ones are read by leaps from one to the next. Of these the ones whose
# first message is the oldest; those with a large one in a window of their own, for they may wait
# until others have left. Of each link the first, then of each the second, and so on.
# BETWEEN, for with `=` an index of ids alone would do for the order, and is read from its start.
# Those to these `partners`, if `only` is true, else to all others.
# A link that is probed is suspended to all but the probe (D15, D41).
LOCK_WAITING = Statement(
    """
    WITH RECURSIVE head (link_id, id, size) AS (
        (SELECT link_id, id, size FROM msh_outboundmessage
         WHERE semantics = 'BestEffort' AND state = 'queued' ORDER BY link_id, id LIMIT 1)
        UNION ALL
        SELECT next.link_id, next.id, next.size FROM head CROSS JOIN LATERAL (
            SELECT link_id, id, size FROM msh_outboundmessage
            WHERE semantics = 'BestEffort' AND state = 'queued' AND link_id > head.link_id
            ORDER BY link_id, id LIMIT 1) next),
    open AS (
        SELECT head.link_id, head.id, link.partner_id, head.size >= %(large)s AS large
        FROM head CROSS JOIN LATERAL (
            SELECT partner_id, state, in_flight_id, retries_spent
            FROM msh_outboundlink WHERE id = head.link_id OFFSET 0) link
        WHERE link.state IN ('idle', 'waiting') AND (link.partner_id = ANY(%(partners)s)) = %(only)s
          AND (link.retries_spent = 0 OR NOT EXISTS (
              SELECT FROM msh_outboundmessage flying
              WHERE flying.id = link.in_flight_id
                AND to_jsonb(link.retries_spent) > flying.terms -> 'retries'
              OFFSET 0))),
    chosen AS (
        (SELECT link_id, partner_id FROM open WHERE NOT large ORDER BY id LIMIT %(limit)s)
        UNION ALL
        (SELECT link_id, partner_id FROM open WHERE large ORDER BY id LIMIT %(limit_of_large)s)),
    candidate AS (
        SELECT first.id, partner_id FROM chosen CROSS JOIN LATERAL unnest(ARRAY(
            SELECT id FROM msh_outboundmessage
            WHERE link_id BETWEEN chosen.link_id AND chosen.link_id
              AND semantics = 'BestEffort' AND state = 'queued'
            ORDER BY link_id, id LIMIT %(of_partner)s)) WITH ORDINALITY first (id, place)
        ORDER BY first.place, first.id)
    SELECT message.id, message.message_id, message.size, candidate.partner_id
    FROM candidate CROSS JOIN LATERAL (
        SELECT id, message_id, size FROM msh_outboundmessage
        WHERE id = candidate.id AND state = 'queued' FOR NO KEY UPDATE SKIP LOCKED) message
    LIMIT %(limit_in_all)s
    """,
    WaitingMessage,
)

LOCK_ONE_WAITING = Statement(
    """
    SELECT message.id, message.message_id, message.size, link.partner_id
    FROM msh_outboundmessage message JOIN msh_outboundlink link ON link.id = message.link_id
    WHERE message.id = %(key)s AND message.state = 'queued'
    FOR NO KEY UPDATE OF message SKIP LOCKED
    """,
    WaitingMessage,
)

LOCK_OPEN = Statement(
    """
    SELECT id FROM msh_outboundmessage
    WHERE id = %(key)s AND semantics = 'BestEffort' AND state IN ('queued', 'in_flight')
    FOR NO KEY UPDATE
    """,
    Key,
)

LOCK_LOST = Statement(
    """
    SELECT message.id AS key, message.message_id, link.partner_id
    FROM msh_outboundmessage message JOIN msh_outboundlink link ON link.id = message.link_id
    WHERE message.semantics = 'BestEffort' AND message.state = 'in_flight'
      AND message.due <= statement_timestamp()
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF message SKIP LOCKED
    """,
    BestEffortCopy,
)

# An Error of the partner may come before the attempt is recorded.
LOCK_UNDER_WAY = Statement(
    """
    SELECT message.id, message.state FROM msh_outboundmessage message
    WHERE message.id = ANY(%(keys)s) AND message.state IN ('in_flight', 'failed')
      AND semantics = 'BestEffort'
    ORDER BY id FOR NO KEY UPDATE
    """,
    KeyAndState,
)

LOCK_ANSWERED = Statement(
    """
    SELECT message.id, message.state
    FROM msh_outboundlink link JOIN msh_outboundmessage message ON message.link_id = link.id
    JOIN partners_agreement agreement ON agreement.id = message.agreement_id
    WHERE link.partner_id = %(partner_id)s AND message.message_id = %(message_id)s
      AND message.agreement_id = %(agreement_id)s AND agreement.dialect <> 'trp'
      AND message.semantics = 'BestEffort' AND message.state <> 'queued'
    FOR NO KEY UPDATE OF message
    """,
    KeyAndState,
)
