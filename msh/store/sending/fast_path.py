"""What the worker and the endpoint write for nearly every message, as one statement each.

A statement of several writes costs the server one parse, one plan and one round trip; the pieces
are the statements of the same names in `link_sql`, `message_sql` and `party_events`, and
`tests/store/test_fast_path.py` compares what both ways leave in the tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from msh.store.engine import Call, Statement, Write
from msh.store.history import INSERT as INSERT_HISTORY
from msh.store.history import insert_one, parameters
from msh.store.partner_columns import PARTNER_IN_VERSION

from . import link_sql, message_sql, party_events
from .queue_sql import HEAD, VERSION_OF_NEXT

_WRITE_LINK = link_sql.WRITE.sql


@dataclass(frozen=True, slots=True)
class Written:
    """A link as a statement has written it `at` this time, which is the database's: its version."""

    version: str
    at: datetime


CLAIM_ATTEMPT = Write(f"""
    WITH link AS ({_WRITE_LINK})
    INSERT INTO msh_attempt (message_id, number, claimed_at)
    VALUES (%(key)s, %(number)s, %(at)s)
""")

END_ATTEMPT = Write(f"""
    WITH link AS ({_WRITE_LINK})
    UPDATE msh_attempt
    SET ended_at = %(at)s, outcome = %(outcome)s, status = %(status)s, detail = %(detail)s,
        reason = %(reason)s, body_sent = %(body_sent)s
    WHERE message_id = %(key)s AND number = %(number)s
""")

_ONE_TIME = {"partner_id": "%(partner_id)s", "at": "%(done_at)s"}
"""Of all that a statement records."""

# The message that is next by what this process remembers is still the head of the queue, and
# message, agreement and partner are as they were.
_NEXT_AS_REMEMBERED = f"""
    AND {PARTNER_IN_VERSION} AND EXISTS (
        SELECT FROM (SELECT %(link_id)s::bigint AS id) link,
            LATERAL ({HEAD.format("id, agreement_id, xmin")}) message
        JOIN partners_agreement agreement ON agreement.id = message.agreement_id
        WHERE message.id = %(next_key)s AND {VERSION_OF_NEXT} = %(next_version)s)
"""


def _if_unchanged(guard: str = "") -> str:
    return f"""
    WITH link AS (
        {_WRITE_LINK} AND xmin = %(version)s {guard}
        RETURNING id, xmin::text AS version, statement_timestamp() AS at),
    done AS (
        UPDATE msh_outboundmessage
        SET state = %(done_state)s, completed_at = %(done_at)s, due = NULL
        WHERE id = %(done_key)s AND EXISTS (SELECT FROM link)),
    event AS (
        INSERT INTO msh_partyevent (event_id, message_id, kind, detail, code, at, due)
        SELECT gen_random_uuid(), %(event_key)s, %(event_kind)s::text, %(event_detail)s::text,
               %(event_code)s::text, %(done_at)s, %(done_at)s
        FROM link),
    entry AS (
        {insert_one(**(parameters("entry_") | _ONE_TIME))} FROM link)
"""


# xmin is the transaction that wrote the row last: a link that is as it was read has the same.
# Whoever changes without this row what was decided by has to write the row nevertheless
# (docs/decisions/2026-11-21-at-once.md).
ACKNOWLEDGE_IF_UNCHANGED = Statement(f"{_if_unchanged()} SELECT version, at FROM link", Written)


# With a promise the link has the number of its attempt.
def _and_start_next(guard: str = "") -> Statement[Written]:
    return Statement(
        f"""{_if_unchanged(guard)},
    next AS (
        UPDATE msh_outboundmessage
        SET state = 'in_flight', sequence_number = %(next_sequence_number)s,
            epoch = %(next_epoch)s, terms = %(next_terms)s,
            head = COALESCE(%(head)s, head), body_sha256 = COALESCE(%(body_sha256)s, body_sha256),
            first_sent_at = COALESCE(%(head_at)s, first_sent_at)
        WHERE id = %(next_key)s AND EXISTS (SELECT FROM link)),
    attempt AS (
        INSERT INTO msh_attempt (message_id, number, claimed_at)
        SELECT %(next_key)s, %(attempt)s, %(done_at)s FROM link WHERE %(promised)s),
    next_entry AS (
        {insert_one(**(parameters("then_") | _ONE_TIME))} FROM link)
    SELECT version, at FROM link
    """,
        Written,
    )


ACKNOWLEDGE_AND_START_NEXT_IF_UNCHANGED = _and_start_next()
ACKNOWLEDGE_AND_START_NEXT_AS_REMEMBERED = _and_start_next(_NEXT_AS_REMEMBERED)

_AGAIN = [link_sql.WRITE, message_sql.INSERT_ATTEMPT]
_ENDED = [link_sql.WRITE, message_sql.END_ATTEMPT]
_ACK = [message_sql.COMPLETE, link_sql.WRITE, party_events.INSERT, INSERT_HISTORY]
_ACK_AND_NEXT = [
    *(message_sql.COMPLETE, message_sql.PUT_IN_FLIGHT, link_sql.WRITE),
    *(party_events.INSERT, INSERT_HISTORY, INSERT_HISTORY),
]
_NO_HEAD = message_sql.STORE_HEAD(head=None, body_sha256=None, at=None)
_OPTIONAL = (message_sql.STORE_HEAD, message_sql.INSERT_ATTEMPT)


def merge(calls: Sequence[Call[object]]) -> Sequence[Call[object]]:
    """Return the same writes, as one statement if they are a claim or the end of one attempt."""
    statements = [call.statement for call in calls]
    values = {name: value for call in calls[:2] for name, value in call.values.items()}
    if statements == _AGAIN:
        return [CLAIM_ATTEMPT(**values)]
    if statements == _ENDED:
        return [END_ATTEMPT(**values)]
    return calls


def if_unchanged(
    calls: Sequence[Call[object]], version: str, remembered: Mapping[str, object] | None = None
) -> Call[Written] | None:
    """Return one statement that makes these writes if the link is in this version, and returns a
    row if it was. None if they are not those of an Acknowledgement for the message in flight.
    `remembered`: parameters that prove what was decided by, if it was not read just now."""
    heads = [call for call in calls if call.statement is message_sql.STORE_HEAD] or [_NO_HEAD]
    calls = [call for call in calls if call.statement not in _OPTIONAL]
    statements = [call.statement for call in calls]
    if statements == _ACK and remembered is None:
        done, link, event, entry = calls
        return ACKNOWLEDGE_IF_UNCHANGED(
            version=version,
            partner_id=entry.values["partner_id"],
            **link.values,
            **_named("done", done),
            **_named("event", event),
            **_named("entry", entry),
        )
    if statements == _ACK_AND_NEXT:
        done, following, link, event, entry, then = calls
        statement = (
            ACKNOWLEDGE_AND_START_NEXT_IF_UNCHANGED
            if remembered is None
            else ACKNOWLEDGE_AND_START_NEXT_AS_REMEMBERED
        )
        return statement(
            version=version,
            partner_id=entry.values["partner_id"],
            **(remembered or {}),
            **link.values,
            **_named("done", done),
            **_named("next", following),
            **_named("event", event),
            **_named("entry", entry),
            **_named("then", then),
            head=heads[0].values["head"],
            body_sha256=heads[0].values["body_sha256"],
            head_at=heads[0].values["at"],
        )
    return None


def _named(prefix: str, call: Call[object]) -> dict[str, object]:
    return {f"{prefix}_{name}": value for name, value in call.values.items()}
