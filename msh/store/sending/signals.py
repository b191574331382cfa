"""Acknowledgements and Error Messages: from pending to transmitted."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.ebms.vocabulary import SERVICE
from msh.store import history
from msh.store.engine import Call, Key, Order, Statement, Write
from msh.store.history import HistoryRow
from msh.store.partner_columns import ROUTE_COLUMNS, RouteColumns


@dataclass(frozen=True)
class NewSignal:
    """What a partner is to get about one of its messages."""

    link_id: int
    kind: str
    message_id: str
    tpa_id: str
    conversation_id: str
    sequence_number: int | None
    at: datetime
    expires_at: datetime
    code: str = ""
    location: str = ""
    description: str = ""
    min_retry_secs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSignal(RouteColumns):
    """A signal to be sent, locked. `routed`: the message it is about waits to be forwarded."""

    id: int
    kind: str
    ref_to_message_id: str
    tpa_id: str
    conversation_id: str
    code: str
    location: str
    description: str
    min_retry_secs: int | None
    content_type: str
    body: bytes | None
    dialect: str
    transmitted: int
    """How often it was, so far."""
    routed: bool
    channel_address: str | None
    """Where the channel of such signals leads (EB-201); None if there is none, or without one."""
    now: datetime


@dataclass(frozen=True, slots=True)
class SignalCopy:
    """A signal that is sent, by the row id `key`, and the bytes that are. If its POST fails, the
    same are tried again."""

    key: int
    kind: str
    ref_to_message_id: str
    partner_id: int
    routed: bool = False
    """The message it acknowledges may be forwarded as soon as it was transmitted (000 §4.1.1)."""
    again: bool = field(default=False, compare=False)
    """It was transmitted before."""
    content_type: str = field(default="", compare=False)
    body: bytes | None = field(default=None, compare=False, repr=False)
    writes_link: ClassVar[bool] = False


ACKNOWLEDGED = """
    CASE WHEN %(kind)s::varchar = 'Acknowledgement' THEN (
        SELECT id FROM msh_inboundmessage
        WHERE link_id = %(link_id)s AND message_id = %(message_id)s::varchar) ELSE 0 END
"""
"""Column `inbound_id` of a signal of any kind."""

LINK_THAT_STAYS = "(SELECT id FROM msh_inboundlink WHERE id = %(link_id)s FOR KEY SHARE)"
"""Column `link_id` of what has no foreign key: the deletion of the link waits, and is refused. If
it came first, there is none, and the statement fails."""

# One row per message: a flood of copies makes many signals and stays one row. While one of them is
# being sent, the next waits for it, but not for long: its worker may be dead.
QUEUE_SIGNAL = Write(
    f"""
    INSERT INTO msh_signal
        (link_id, kind, ref_to_message_id, tpa_id, conversation_id, code, location, description,
         min_retry_secs, sequence_number, first_at, due, expires_at, inbound_id)
    VALUES ({LINK_THAT_STAYS}, %(kind)s, %(message_id)s, %(tpa_id)s, %(conversation_id)s, %(code)s,
            %(location)s, %(description)s, %(min_retry_secs)s, %(sequence_number)s, %(at)s, %(at)s,
            %(expires_at)s, {ACKNOWLEDGED})
    ON CONFLICT (inbound_id, link_id, kind, code, ref_to_message_id) DO UPDATE
    SET pending = msh_signal.pending + 1, expires_at = EXCLUDED.expires_at,
        description = EXCLUDED.description, min_retry_secs = EXCLUDED.min_retry_secs,
        sequence_number = EXCLUDED.sequence_number,
        due = CASE WHEN msh_signal.sending
                   THEN LEAST(msh_signal.due, EXCLUDED.due + interval '1 second')
                   ELSE EXCLUDED.due END
""",
    order=Order.SIGNAL,
)

_COLUMNS = f"""
    signal.id, signal.kind, signal.ref_to_message_id, signal.tpa_id,
    signal.conversation_id, signal.code, signal.location, signal.description,
    signal.min_retry_secs, signal.content_type, signal.body, signal.dialect, signal.transmitted,
    {ROUTE_COLUMNS},
    EXISTS (
        SELECT FROM msh_inboundmessage message
        WHERE message.link_id = signal.link_id AND message.state = 'routed'
          AND message.message_id = signal.ref_to_message_id) AS routed,
    CASE WHEN signal.dialect = 'ebms2' THEN (
        SELECT channel.address
        FROM partners_agreement agreement
        JOIN partners_channel channel
          ON channel.agreement_id = agreement.id AND channel.direction = 'out'
         AND channel.service = '{SERVICE}'
         AND channel.action = CASE signal.kind WHEN 'Acknowledgement' THEN 'Acknowledgment'
                                               WHEN 'Error' THEN 'MessageError'
                                               ELSE signal.kind END
        WHERE agreement.partner_id = partner.id AND agreement.tpa_id = signal.tpa_id
          AND agreement.has_channels) END AS channel_address,
    clock_timestamp() AS now
"""
_PARTNER = """
    CROSS JOIN LATERAL (
        SELECT partner.* FROM msh_inboundlink link
        JOIN partners_partner partner ON partner.id = link.partner_id
        WHERE link.id = signal.link_id OFFSET 0) partner
    LEFT JOIN partners_ownidentity own ON true
"""

# The links that have pending signals are read by leaps from one to the next. Of these the ones
# whose first signal is due longest, of each link at most so many as its partner has free slots:
# the first of each, then the second of each, and so on. Those to these `partners`, if `only` is
# true, else to all others.
LOCK_PENDING = Statement(
    f"""
    WITH RECURSIVE head (link_id, due) AS (
        (SELECT link_id, due FROM msh_signal WHERE pending > 0 ORDER BY link_id, due LIMIT 1)
        UNION ALL
        SELECT next.link_id, next.due FROM head CROSS JOIN LATERAL (
            SELECT link_id, due FROM msh_signal
            WHERE pending > 0 AND link_id > head.link_id ORDER BY link_id, due LIMIT 1) next),
    chosen AS (
        SELECT head.link_id, head.due FROM head CROSS JOIN LATERAL (
            SELECT partner_id FROM msh_inboundlink WHERE id = head.link_id OFFSET 0) link
        WHERE head.due <= statement_timestamp() AND (link.partner_id = ANY(%(partners)s)) = %(only)s
        ORDER BY head.due LIMIT %(limit)s),
    candidate AS (
        SELECT first.id FROM chosen CROSS JOIN LATERAL unnest(ARRAY(
            SELECT id FROM msh_signal
            WHERE link_id = chosen.link_id AND pending > 0 AND due <= statement_timestamp()
            ORDER BY due LIMIT %(of_partner)s)) WITH ORDINALITY first (id, place)
        ORDER BY first.place, chosen.due)
    SELECT {_COLUMNS}
    FROM candidate CROSS JOIN LATERAL (
        SELECT * FROM msh_signal
        WHERE id = candidate.id AND pending > 0 AND due <= statement_timestamp()
        FOR NO KEY UPDATE SKIP LOCKED) signal
    {_PARTNER}
    LIMIT %(limit)s
    """,
    PendingSignal,
)

FIND_LEFT = Statement(
    """
    (SELECT link.id FROM msh_inboundlink link
     WHERE link.partner_id = ANY(%(partner_ids)s) AND EXISTS (
         SELECT FROM msh_signal
         WHERE link_id = link.id AND pending > 0 AND due <= statement_timestamp()) LIMIT 1)
    UNION ALL
    (SELECT link.id FROM msh_outboundlink link
     WHERE link.partner_id = ANY(%(partner_ids)s) AND link.state NOT IN ('suspended', 'transient')
       AND EXISTS (
         SELECT FROM msh_outboundmessage
         WHERE link_id = link.id AND semantics = 'BestEffort' AND state = 'queued') LIMIT 1)
    """,
    Key,
)
"""Links to these partners that have something pending, or BestEffort messages queued."""

LOCK_ONE_PENDING = Statement(
    f"""
    SELECT {_COLUMNS}
    FROM msh_signal signal
    {_PARTNER}
    WHERE signal.id = %(key)s AND pending > 0 AND due <= statement_timestamp()
    FOR NO KEY UPDATE OF signal SKIP LOCKED
    """,
    PendingSignal,
)

# The statement that stores a message has claimed its Acknowledgement for a second, and a wake-up
# names it to one worker. Whatever is lost on the way, the sweep finds it after that second. In
# its last tenth a POST would hardly begin before the sweep sends the same again.
READ_CLAIMED = Statement(
    f"""
    SELECT {_COLUMNS}
    FROM msh_signal signal
    {_PARTNER}
    WHERE signal.id = ANY(%(keys)s) AND sending AND tries = 1
      AND due > statement_timestamp() + interval '0.1 second'
    """,
    PendingSignal,
)

# A POST that takes longer is nobody else's to send.
KEEP_CLAIMED = Write(
    """
    UPDATE msh_signal SET due = %(until)s WHERE id = ANY(%(keys)s) AND sending AND tries = 1
""",
    order=Order.SIGNAL,
)

CLAIM = Write(
    """
    UPDATE msh_signal SET sending = true, tries = tries + 1, due = %(until)s WHERE id = %(key)s
""",
    order=Order.SIGNAL,
)

_END_TRANSMITTED = """
    UPDATE msh_signal
    SET pending = GREATEST(pending - 1, 0),
        transmitted = transmitted + 1, sending = false, tries = 0,
        due = statement_timestamp(), body = CASE WHEN kept THEN body END,
        last_status = %(status)s, last_detail = %(detail)s
"""
_FIRST_TRANSMITTED = history.insert_one(
    at="%(at)s",
    partner_id="link.partner_id",
    direction="'in'",
    message_id="signal.ref_to_message_id",
    event="signal.kind || 'Transmitted'",
    detail="%(detail)s",
)
FIRST_TRANSMITTED = Write(
    f"""
    WITH transmitted AS (
        {_END_TRANSMITTED} WHERE id = ANY(%(keys)s) AND sending)
    {_FIRST_TRANSMITTED}
    FROM msh_signal signal JOIN msh_inboundlink link ON link.id = signal.link_id
    WHERE signal.id = ANY(%(keys)s)
""",
    order=Order.SIGNAL,
)

_TRANSMITTED_AGAIN = history.insert_or_count_one(
    at="%(at)s",
    partner_id="%(partner_id)s",
    direction="'in'",
    message_id="%(message_id)s",
    event="%(event)s",
    detail="%(detail)s",
)
TRANSMITTED_AGAIN = Write(
    f"""
    WITH transmitted AS ({_END_TRANSMITTED} WHERE id = %(key)s AND sending),
    {_TRANSMITTED_AGAIN}
""",
    order=Order.SIGNAL,
)

# The same bytes are tried again. Back-off doubles from a second to a minute, until the retry
# horizon is over.
FAILED = Write(
    """
    UPDATE msh_signal
    SET sending = false,
        due = statement_timestamp() + interval '1 second' * LEAST(60, 2 ^ LEAST(tries - 1, 10)),
        pending = CASE WHEN expires_at < statement_timestamp() THEN 0 ELSE pending END,
        body = CASE WHEN kept OR expires_at >= statement_timestamp() THEN %(body)s::bytea END,
        content_type = %(content_type)s,
        last_status = %(status)s, last_detail = %(detail)s
    WHERE id = %(key)s
""",
    order=Order.SIGNAL,
)

REFUSED = Write(
    """
    UPDATE msh_signal
    SET sending = false, pending = 0, body = CASE WHEN kept THEN body END,
        last_status = %(status)s, last_detail = %(detail)s
    WHERE id = %(key)s
""",
    order=Order.SIGNAL,
)


def queue_signal(new: NewSignal) -> Call[None]:
    return QUEUE_SIGNAL.of(new)


def end_signals(
    ended: Iterable[tuple[SignalCopy, AttemptResult]], now: datetime
) -> list[Call[None]]:
    """End each as `end_signal` does. Those that were transmitted for the first time are written
    together."""
    calls: list[Call[None]] = []
    firsts = defaultdict[tuple[int | None, str], list[int]](list)
    for copy, result in ended:
        if result.outcome is AttemptOutcome.TRANSMITTED and not copy.again:
            firsts[result.status, result.detail].append(copy.key)
        else:
            calls += end_signal(copy, result, now)
    for (status, detail), keys in firsts.items():
        calls.append(FIRST_TRANSMITTED(keys=sorted(keys), status=status, detail=detail, at=now))
    return calls


def end_signal(copy: SignalCopy, result: AttemptResult, now: datetime) -> list[Call[None]]:
    """End a signal. Transmitted: one less is pending. Failed: it is sent again after a back-off.
    Refused: it is no longer pending (D51)."""
    end = {"key": copy.key, "status": result.status, "detail": result.detail}
    message_id, partner_id = copy.ref_to_message_id, copy.partner_id
    match result.outcome:
        case AttemptOutcome.TRANSMITTED:
            about = {"message_id": message_id, "partner_id": partner_id, "at": now}
            return [TRANSMITTED_AGAIN(**end, **about, event=f"{copy.kind}Transmitted")]
        case AttemptOutcome.REFUSED:
            what = (partner_id, "in", f"{copy.kind}Refused", message_id)
            row = HistoryRow(*what, detail=result.detail, at=now)
            return [REFUSED(**end), history.COUNT.of(row)]
    return [FAILED(**end, content_type=copy.content_type, body=copy.body)]
