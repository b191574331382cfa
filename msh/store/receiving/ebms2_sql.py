"""ebMS 2.0: the agreement of a request, what is known of a message, and the answers that are
kept."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msh.store.engine import Key, Order, Statement, Write
from msh.store.sending.signals import ACKNOWLEDGED


# Without slots these two can be bases of one row.
@dataclass(frozen=True)
class AgreementRow:
    """An agreement, as far as receiving under it needs it. `horizon`: seconds for which copies of
    a message may come. `unreached`: the partner does not answer to what we send. `channels` have
    the columns that have a value; None: there are no channels."""

    id: int
    partner_id: int
    tpa_id: str
    our_party: str
    our_party_context: str
    their_party: str
    their_party_context: str
    our_role: str
    their_role: str
    ack: str
    eliminates: str
    lenient: list[str]
    sync_reply: str
    refuses_status: bool
    check_ref_to: bool
    service_type: str
    clock_tolerance: int
    ordered: bool
    signed: bool
    ack_signed: bool
    signature_method: str
    certificate: str
    allow_sha1: bool
    keep_expired: bool
    encrypted: bool
    allow_rsa_1_5: bool
    horizon: int
    unreached: bool
    channels: list[dict[str, Any]] | None


@dataclass(frozen=True)
class KnownRow:
    """The link that was locked, and what it knows of a MessageId: a message that was accepted
    (`known_...`), or one that was refused with an Error that is kept (`refused_...`)."""

    known_id: int | None
    known_digest: bytes | None
    known_at: datetime | None
    refused_id: int | None
    refused_digest: bytes | None
    refused_description: str | None
    rate_reached_at: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """Content-Type and bytes of an answer."""

    content_type: str
    body: bytes


@dataclass(frozen=True)
class KeptSignal:
    """An answer as it is sent, and sent again (EB-110). `content_digest` is that of the message
    that it refuses, None if that was accepted."""

    link_id: int
    kind: str
    message_id: str
    tpa_id: str
    conversation_id: str
    at: datetime
    expires_at: datetime
    content_type: str
    body: bytes
    code: str = ""
    location: str = ""
    description: str = ""
    content_digest: bytes | None = None


AGREEMENT_COLUMNS = """
    agreement.id, agreement.partner_id, agreement.tpa_id, agreement.our_party,
    agreement.our_party_context, agreement.their_party, agreement.their_party_context,
    agreement.our_role, agreement.their_role, agreement.ack, agreement.eliminates,
    agreement.lenient, agreement.sync_reply, agreement.refuses_status, agreement.ordered,
    agreement.check_ref_to, agreement.service_type, agreement.clock_tolerance,
    agreement.signed, agreement.ack_signed, agreement.signature_method, agreement.certificate,
    agreement.allow_sha1,
    agreement.keep_expired, agreement.encrypted, agreement.allow_rsa_1_5,
    agreement.retry_interval + agreement.retries * agreement.retry_interval AS horizon,
    EXISTS (SELECT FROM msh_outboundlink WHERE partner_id = agreement.partner_id
            AND suspended_for = 'partner_unreachable') AS unreached,
    CASE WHEN agreement.has_channels THEN (
        SELECT json_agg(json_strip_nulls(to_json(channel)) ORDER BY id)
        FROM partners_channel channel WHERE agreement_id = agreement.id) END AS channels
"""
FIND_AGREEMENTS = Statement(
    f"""
    SELECT {AGREEMENT_COLUMNS} FROM partners_agreement agreement
    WHERE partner_id = ANY(%(partners)s) AND tpa_id = %(cpa_id)s AND dialect = 'ebms2'
    """,
    AgreementRow,
)

# Of the messages of the last minute the one that stands so many back as the partner may send in it.
KNOWN_COLUMNS = """
    known.id AS known_id, known.content_digest AS known_digest, known.received_at AS known_at,
    refused.id AS refused_id, refused.content_digest AS refused_digest,
    refused.description AS refused_description,
    CASE WHEN %(rate)s::int > 0 THEN (
        SELECT received_at FROM msh_inboundmessage
        WHERE link_id = link.id AND received_at > statement_timestamp() - interval '1 minute'
        ORDER BY received_at DESC OFFSET %(rate)s::int - 1 LIMIT 1) END AS rate_reached_at,
    clock_timestamp() AS now
"""
KNOWN_TABLES = """
    LEFT JOIN msh_inboundmessage known
           ON known.link_id = link.id AND known.message_id = %(message_id)s
    LEFT JOIN LATERAL (
        SELECT id, content_digest, description FROM msh_signal
        WHERE link_id = link.id AND kind = 'Error'
          AND ref_to_message_id = %(message_id)s AND content_digest IS NOT NULL
        ORDER BY id LIMIT 1) refused ON true
"""
LOAD_KNOWN = Statement(
    f"""
    SELECT {KNOWN_COLUMNS} FROM msh_inboundlink link {KNOWN_TABLES}
    WHERE link.partner_id = %(partner_id)s
    """,
    KnownRow,
)

FIND_MESSAGE = Statement(
    """
    SELECT id FROM msh_inboundmessage
    WHERE link_id = %(link_id)s AND message_id = %(message_id)s
    UNION ALL
    SELECT message.id FROM msh_outboundlink link
    JOIN msh_outboundmessage message ON message.link_id = link.id
    WHERE link.partner_id = %(partner_id)s AND message.message_id = %(message_id)s
    LIMIT 1
    """,
    Key,
)
"""A message of the partner, or to it."""

# A further copy gets the answer that is kept: its bytes stay the first ones. If that still waits,
# it is the answer to this copy too, and keeps its place: else in a burst those whose copies come
# would be answered last. One that is under way may be too early for this copy: one more follows,
# for all copies that come meanwhile.
_IS_UNDER_WAY = "msh_signal.sending AND msh_signal.due > %(at)s"
_COPY_CAME = f"""
    pending = CASE WHEN {_IS_UNDER_WAY} THEN LEAST(msh_signal.pending + 1, 2)
                   ELSE GREATEST(msh_signal.pending, 1) END,
    due = CASE WHEN {_IS_UNDER_WAY}
               THEN LEAST(msh_signal.due, %(at)s::timestamptz + interval '1 second')
               WHEN msh_signal.pending = 0 THEN %(at)s
               ELSE LEAST(msh_signal.due, %(at)s) END
"""
QUEUE_KEPT = Write(
    f"""
    INSERT INTO msh_signal
        (link_id, kind, ref_to_message_id, tpa_id, conversation_id, code, location, description,
         first_at, due, expires_at, content_type, body, kept, dialect, content_digest, inbound_id)
    VALUES (%(link_id)s, %(kind)s, %(message_id)s, %(tpa_id)s, %(conversation_id)s, %(code)s,
            %(location)s, %(description)s, %(at)s, %(at)s, %(expires_at)s, %(content_type)s,
            %(body)s, true, 'ebms2', %(content_digest)s, {ACKNOWLEDGED})
    ON CONFLICT (inbound_id, link_id, kind, code, ref_to_message_id) DO UPDATE
    SET expires_at = EXCLUDED.expires_at, {_COPY_CAME},
        content_digest = COALESCE(msh_signal.content_digest, EXCLUDED.content_digest)
    """,
    order=Order.SIGNAL,
)

# On the connection of the message itself: nothing is pending, and the bytes are the first ones.
ANSWER_KEPT = Statement(
    f"""
    INSERT INTO msh_signal
        (link_id, kind, ref_to_message_id, tpa_id, conversation_id, code, location, description,
         first_at, due, expires_at, content_type, body, kept, dialect, content_digest,
         pending, transmitted, inbound_id)
    VALUES (%(link_id)s, %(kind)s, %(message_id)s, %(tpa_id)s, %(conversation_id)s, %(code)s,
            %(location)s, %(description)s, %(at)s, %(at)s, %(expires_at)s, %(content_type)s,
            %(body)s, true, 'ebms2', %(content_digest)s, 0, 1, {ACKNOWLEDGED})
    ON CONFLICT (inbound_id, link_id, kind, code, ref_to_message_id) DO UPDATE
    SET transmitted = msh_signal.transmitted + 1, expires_at = EXCLUDED.expires_at
    RETURNING content_type, body
    """,
    KeptAnswer,
    order=Order.SIGNAL,
)

ANSWER_AGAIN = Statement(
    """
    UPDATE msh_signal SET transmitted = transmitted + 1, expires_at = %(expires_at)s
    WHERE id = %(key)s
    RETURNING content_type, body
    """,
    KeptAnswer,
    order=Order.SIGNAL,
)

REPEAT_KEPT = Write(
    f"""
    UPDATE msh_signal SET expires_at = %(expires_at)s, {_COPY_CAME} WHERE id = %(key)s
    """,
    order=Order.SIGNAL,
)
