"""The rows of each kind that retention removes, and the statements for it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from msh.store.delivery.feed import EVENTS, INBOUND, Source
from msh.store.engine import Key, Statement, Write
from partners.models.agreement import HORIZONS

# The id of a message accepted with number 1 stays, and the last one. After a reset the ids of the
# earlier run stay until the last number has passed their highest: a late copy of one of them would
# be new again (D39). After a wrap no number passes 999,999,999: an id goes when its own has passed.
_INBOUND_ENDED = """
    message.state IN ('delivered', 'rejected', 'forwarded')
    AND message.delivered_at < statement_timestamp() - %(age)s::interval
"""
_OUTBOUND_ENDED = """
    message.state IN ('acknowledged', 'cancelled', 'sent', 'failed')
    AND message.completed_at < statement_timestamp() - %(age)s::interval
"""
# What is delivered again is still needed.
_NOT_REPLAYED = """
    AND NOT EXISTS (
        SELECT FROM msh_delivery replay WHERE replay.message_id = message.id
          AND replay.replay_order IS NOT NULL AND replay.state IN ('processing', 'failed'))
"""
_PART = "msh_{0}payload part JOIN msh_{0}message message ON message.id = part.message_id WHERE"
_MESSAGE = "msh_{0}message message JOIN msh_{0}link link ON link.id = message.link_id WHERE"
_ID_MAY_GO = f"""
    AND message.delivered_at < statement_timestamp() - interval '1 second' * (
        SELECT GREATEST(
            {HORIZONS}::bigint
                * (timeout + retries::bigint * retry_interval + transient_time_limit),
            persist_duration)
        FROM partners_agreement WHERE id = message.agreement_id)
    AND NOT EXISTS (SELECT FROM msh_outboundmessage WHERE forwards_id = message.id)
    AND message.message_id <> link.last_message_id
    AND (message.sequence_number IS NULL
         OR (message.sequence_number > 1
             AND (message.epoch = link.epoch
                  OR link.last_number > GREATEST(link.highest_number, message.sequence_number))))
"""
_MESSAGE_MAY_GO = """
    AND link.in_flight_id IS DISTINCT FROM message.id
    AND NOT EXISTS (SELECT FROM msh_outboundmessage WHERE corrects_id = message.id)
    AND (message.sequence_number IS NULL OR EXISTS (
        SELECT FROM msh_outboundmessage later
        WHERE later.link_id = message.link_id
          AND (later.epoch, later.sequence_number) > (message.epoch, message.sequence_number)))
"""
# After that a further message of the conversation is held, and an operator called, as if nothing
# had come before. So it goes only where both sides have agreed on how long a message may live, and
# long after; or if nothing of it was ever delivered. Who takes a message of it has its row locked.
_CONVERSATION_MAY_GO = """
    msh_inboundconversation conversation
    JOIN partners_agreement agreement ON agreement.id = conversation.agreement_id
    WHERE (conversation.next_number IS NULL OR agreement.persist_duration > 0)
      AND conversation.last_at < statement_timestamp()
          - GREATEST(%(age)s::interval, interval '1 second' * agreement.persist_duration)
      AND NOT EXISTS (
        SELECT FROM msh_inboundmessage message WHERE message.ordered_in_id = conversation.id)
"""
_NOTIFIED = """
    AND NOT EXISTS (
        SELECT FROM msh_partyevent WHERE message_id = message.id AND delivered_at IS NULL)
"""
# By link and MessageId, as both tables are indexed: one probe for each row of the history.
_OF_MESSAGE = """
    SELECT FROM msh_{0}message
    WHERE link_id = (SELECT id FROM msh_{0}link WHERE partner_id = entry.partner_id)
      AND message_id = entry.message_id
"""
_HISTORY = f"""
    msh_history entry
    WHERE entry.at < statement_timestamp() - %(age)s::interval
      AND NOT EXISTS ({_OF_MESSAGE.format("inbound")})
      AND NOT EXISTS ({_OF_MESSAGE.format("outbound")})
"""


# What was in the feed, and what would have been at the next reading. Before the messages go.
def _note_removed(source: Source, key: str) -> Write:
    """`key`: the column of the row id of the message."""
    column, next_position = source.removed, f"{source.last_position} + 1"
    return Write(f"""
    INSERT INTO msh_prunerun (id, {column})
    SELECT 1, GREATEST(
        max(feed_position), CASE WHEN bool_or(feed_position IS NULL) THEN {next_position} END)
    FROM {source.table} WHERE {key} = ANY(%(keys)s) HAVING count(*) > 0
    ON CONFLICT (id) DO UPDATE SET {column} = EXCLUDED.{column}
    WHERE EXCLUDED.{column} > msh_prunerun.{column}
""")


# Of a message whose payloads go, the archive and the console still say how many it had, and which.
_KEEP_FACTS = """
    INSERT INTO msh_removed{0}payload
        (message_id, position, content_type, label, description, size, sha256)
    SELECT message_id, position, content_type, label, description, size, sha256
    FROM msh_{0}payload WHERE id = ANY(%(keys)s)
"""


class Age(StrEnum):
    """Which of the configured times says when it goes."""

    MESSAGES = "messages"
    PAYLOADS = "payloads"
    CHANGES = "changes"
    IDS = "ids"


@dataclass(frozen=True, slots=True)
class Removal:
    """`rows` are FROM and WHERE of what may go, `key` its row id under the name of its table;
    `dependents` are (table, column) of rows that go with it."""

    table: str
    key: str
    rows: str
    dependents: tuple[tuple[str, str], ...] = ()
    age: Age = Age.MESSAGES
    notes: tuple[Write, ...] = ()
    """What is written before rows of these `keys` go."""
    held_by: str = ""
    """A dependent table whose rows others lock before the row they depend on."""
    ended: str = ""
    """An indexed time by which alone a row goes: those that stay are not looked at."""


# What is forwarded is no application's: it may come again when its own id is forgotten.
_KEEP_IDS = Write("""
    INSERT INTO msh_submittedid
        (link_id, message_id, content_digest, key, state, submitted_at, ended_at)
    SELECT link_id, message_id, content_digest, id, state, submitted_at, completed_at
    FROM msh_outboundmessage WHERE id = ANY(%(keys)s) AND forwards_id IS NULL
""")
_OUTBOUND_MESSAGES = Removal(
    "msh_outboundmessage",
    "message.id",
    f"{_MESSAGE.format('outbound')} {_OUTBOUND_ENDED} {_MESSAGE_MAY_GO}",
    (
        ("msh_outboundpayload", "message_id"),
        ("msh_removedoutboundpayload", "message_id"),
        ("msh_attempt", "message_id"),
        ("msh_partyevent", "message_id"),
        ("msh_businesskey", "outbound_id"),
    ),
    notes=(_note_removed(EVENTS, "message_id"), _KEEP_IDS),
)
_KINDS = {
    "inbound payloads": Removal(
        "msh_inboundpayload",
        "part.id",
        f"{_PART.format('inbound')} {_INBOUND_ENDED} {_NOT_REPLAYED}",
        age=Age.PAYLOADS,
        notes=(Write(_KEEP_FACTS.format("inbound")),),
    ),
    "outbound payloads": Removal(
        "msh_outboundpayload",
        "part.id",
        f"{_PART.format('outbound')} {_OUTBOUND_ENDED}",
        age=Age.PAYLOADS,
        notes=(Write(_KEEP_FACTS.format("outbound")),),
    ),
    "inbound messages": Removal(
        "msh_inboundmessage",
        "message.id",
        f"{_MESSAGE.format('inbound')} {_INBOUND_ENDED} {_ID_MAY_GO} {_NOT_REPLAYED}",
        (
            ("msh_inboundpayload", "message_id"),
            ("msh_removedinboundpayload", "message_id"),
            ("msh_delivery", "message_id"),
            ("msh_businesskey", "inbound_id"),
        ),
        notes=(_note_removed(INBOUND, "id"),),
        held_by="msh_delivery",
    ),
    "conversations from partners": Removal(
        "msh_inboundconversation", "conversation.id", _CONVERSATION_MAY_GO
    ),
    "outbound messages": _OUTBOUND_MESSAGES,
    "ids of submitted messages": Removal(
        "msh_submittedid",
        "kept.id",
        "msh_submittedid kept WHERE kept.ended_at < statement_timestamp() - %(age)s::interval",
        age=Age.IDS,
        ended="kept.ended_at",
    ),
    # A message that is submitted meanwhile locks its conversation, and makes it young again.
    "conversations to partners": Removal(
        "msh_outboundconversation",
        "conversation.id",
        "msh_outboundconversation conversation WHERE state <> 'stopped'"
        " AND used_at < statement_timestamp() - %(age)s::interval"
        " AND NOT EXISTS (SELECT FROM msh_flight WHERE ordered_in_id = conversation.id)",
    ),
    "signals": Removal(
        "msh_signal",
        "signal.id",
        "msh_signal signal WHERE pending = 0"
        " AND expires_at < statement_timestamp() - %(age)s::interval"
        # A further copy of its message gets the answer that is kept.
        " AND NOT (kept AND EXISTS (SELECT FROM msh_inboundmessage WHERE"
        " link_id = signal.link_id AND message_id = signal.ref_to_message_id))",
    ),
    "incidents": Removal(
        "msh_incident",
        "incident.id",
        "msh_incident incident WHERE resolved_at < statement_timestamp() - %(age)s::interval",
        (("msh_incidentnote", "incident_id"), ("msh_operatornotice", "incident_id")),
    ),
    "early warnings": Removal(
        "msh_operatornotice",
        "notice.id",
        "msh_operatornotice notice WHERE notice.incident_id IS NULL"
        " AND notice.at < statement_timestamp() - %(age)s::interval",
    ),
    "bulk jobs": Removal(
        "msh_bulkjob",
        "job.id",
        "msh_bulkjob job WHERE job.ended_at < statement_timestamp() - %(age)s::interval",
        (("msh_bulkitem", "job_id"),),
    ),
    "history": Removal("msh_history", "entry.id", _HISTORY),
    "changes of settings": Removal(
        "msh_settingchange",
        "change.id",
        "msh_settingchange change WHERE change.at < statement_timestamp() - %(age)s::interval",
        age=Age.CHANGES,
    ),
    "requests for a second person": Removal(
        "msh_actrequest",
        "request.id",
        "msh_actrequest request WHERE request.until < statement_timestamp() - %(age)s::interval",
        age=Age.CHANGES,
    ),
    "saved pages": Removal(
        "django_admin_log",
        "entry.id",
        "django_admin_log entry"
        " WHERE entry.action_time < statement_timestamp() - %(age)s::interval",
        age=Age.CHANGES,
    ),
    "log-ins": Removal(
        "axes_accesslog",
        "entry.id",
        "axes_accesslog entry WHERE entry.attempt_time < statement_timestamp() - %(age)s::interval",
        age=Age.CHANGES,
    ),
}


def kinds(*, heard: bool) -> Mapping[str, Removal]:
    """Return the kinds of rows by name, in the order in which they are removed: the history of a
    message goes after the message. `heard`: somebody is notified of events, so that a pending one
    keeps its message."""
    if not heard:
        return _KINDS
    notified = replace(_OUTBOUND_MESSAGES, rows=_OUTBOUND_MESSAGES.rows + _NOTIFIED)
    return _KINDS | {"outbound messages": notified}


@dataclass(frozen=True, slots=True)
class Count:
    rows: int


@dataclass(frozen=True, slots=True)
class Window:
    last: int | None


@dataclass(frozen=True, slots=True)
class HeldMessage:
    message_id: int


def count(removal: Removal) -> Statement[Count]:
    return Statement(f"SELECT count(*) AS rows FROM {removal.rows}", Count)


def window(removal: Removal) -> Statement[Window]:
    """The last key of `limit` rows after a key. Whatever plan `find` gets, it looks at no others,
    so that all of a night's batches look at each row once."""
    return Statement(
        f"""
        SELECT max(id) AS last
        FROM (SELECT id FROM {removal.table} WHERE id > %(after)s
              ORDER BY id LIMIT %(limit)s) rows
        """,
        Window,
    )


def find(removal: Removal) -> Statement[Key]:
    alias = removal.key.partition(".")[0]
    return Statement(
        f"""
        SELECT {removal.key} AS id FROM {removal.rows}
          AND {removal.key} > %(after)s AND {removal.key} <= %(last)s
        ORDER BY {removal.key} LIMIT %(limit)s
        FOR UPDATE OF {alias} SKIP LOCKED
        """,
        Key,
    )


@dataclass(frozen=True, slots=True)
class Ended:
    """`at` in microseconds since 1970."""

    id: int
    at: int


def find_oldest(removal: Removal) -> Statement[Ended]:
    """From a time on: what earlier batches have removed is still in the index until a vacuum."""
    alias = removal.key.partition(".")[0]
    return Statement(
        f"""
        SELECT {removal.key} AS id, (extract(epoch FROM {removal.ended}) * 1000000)::bigint AS at
        FROM {removal.rows}
          AND {removal.ended} >= timestamptz 'epoch' + %(after)s * interval '1 microsecond'
        ORDER BY {removal.ended} LIMIT %(limit)s
        FOR UPDATE OF {alias} SKIP LOCKED
        """,
        Ended,
    )


def lock_holders(removal: Removal) -> Statement[Key]:
    return Statement(
        f"""
        SELECT id FROM {removal.held_by} WHERE message_id = ANY(%(keys)s) FOR UPDATE SKIP LOCKED
        """,
        Key,
    )


def find_held(removal: Removal) -> Statement[HeldMessage]:
    return Statement(
        f"""
        SELECT message_id FROM {removal.held_by}
        WHERE message_id = ANY(%(keys)s) AND id <> ALL(%(ours)s)
        """,
        HeldMessage,
    )


def deletions(removal: Removal) -> list[Write]:
    """What removes the rows of `keys`, with what is noted of them first."""
    tables = [*removal.dependents, (removal.table, "id")]
    return [
        *removal.notes,
        *(Write(f"DELETE FROM {table} WHERE {column} = ANY(%(keys)s)") for table, column in tables),
    ]
