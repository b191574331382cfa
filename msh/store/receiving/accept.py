"""Messages that are accepted, with their payloads and the beginning of their history: stored under
the lock of the link, or by one statement without it, if all that was decided by is unchanged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import IntegrityError

from msh.faults import CrashPoint, reach
from msh.models import InboundState
from msh.protocol.message import Payload
from msh.store import history
from msh.store.engine import Call, Statement, Write, run
from msh.store.history import HistoryRow, insert_one
from msh.store.partner_columns import PARTNER_IN_VERSION
from msh.store.sending.signals import LINK_THAT_STAYS
from partners.models import Partner

from .pairs import SET_LAST_NUMBER

_ONE_PAYLOAD = """
    SELECT id, 1, %(content_type)s, %(content_id)s, %(label)s, %(description)s, %(content)s
    FROM message
"""
_PAYLOADS = """
    SELECT message.id, part.*
    FROM message,
         unnest(%(positions)s::int[], %(content_types)s::text[], %(content_ids)s::text[],
                %(labels)s::text[], %(descriptions)s::text[], %(contents)b::bytea[]) part
"""


def _one_payload(payloads: Sequence[Payload]) -> Mapping[str, object]:
    """The values of _ONE_PAYLOAD."""
    (payload,) = payloads
    return {
        "content_type": payload.content_type,
        "content_id": payload.content_id,
        "label": payload.label,
        "description": payload.description,
        "content": payload.content,
    }


def _payload_columns(payloads: Sequence[Payload]) -> Mapping[str, object]:
    """The values of _PAYLOADS."""
    return {
        "positions": list(range(1, len(payloads) + 1)),
        "content_types": [payload.content_type for payload in payloads],
        "content_ids": [payload.content_id for payload in payloads],
        "labels": [payload.label for payload in payloads],
        "descriptions": [payload.description for payload in payloads],
        "contents": [payload.content for payload in payloads],
    }


_SAID = (
    *("message_id", "semantics", "conversation_id", "service_interface", "action"),
    *("ref_to_message_id", "sent_at", "content_digest", "header"),
)
"""Columns of what a message itself says, in every dialect."""
# Read before the link was locked, or cached. The deletion of either waits for the message, and is
# refused; if it came first, the statement fails.
AGREEMENT_THAT_STAYS = (
    "(SELECT id FROM partners_agreement WHERE id = %(agreement_id)s FOR KEY SHARE)"
)


def _insert_message(payloads: str = _PAYLOADS, *, source: str = "", **values: str) -> str:
    """The first two expressions of a statement that stores a message, `message` with its id, and
    `parts`. `values` are expressions of SQL by column, beside what the message says. There is one
    for each row of `source`, a FROM."""
    row = {name: f"%({name})s" for name in _SAID} | values
    return f"""
    message AS (
        INSERT INTO msh_inboundmessage ({", ".join(row)})
        SELECT {", ".join(row.values())} {source}
        RETURNING id),
    parts AS (
        INSERT INTO msh_inboundpayload
            (message_id, position, content_type, content_id, label, description, content)
        {payloads})"""


_NO_VALUES: Mapping[str, object] = {
    "state": InboundState.ACCEPTED.value,
    "epoch": None,
    "sequence_number": None,
    "ordered_in_id": None,
    "order_number": None,
    "from_role": "",
    "to_role": "",
    "service_type": "",
}
"""Empty values for columns that only some messages have."""
_INSERT = _insert_message(
    link_id=LINK_THAT_STAYS,
    agreement_id=AGREEMENT_THAT_STAYS,
    **{name: f"%({name})s" for name in (*_NO_VALUES, "received_at")},
)
INSERT = Write(f"WITH {_INSERT} SELECT")
COUNT_DUPLICATE = Write(
    "UPDATE msh_inboundmessage SET duplicates = duplicates + 1 WHERE id = %(key)s"
)


def store_calls(
    partner_id: int, now: datetime, columns: Mapping[str, object], payloads: Sequence[Payload]
) -> list[Call[object]]:
    """A message is stored with its payloads, and its history begins."""
    row = {**_NO_VALUES, **columns, "received_at": now}
    number = row["sequence_number"] if row["order_number"] is None else row["order_number"]
    detail = "" if number is None else f"number {number}"
    message_id, state = str(row["message_id"]), str(row["state"])
    arrived = (partner_id, "in", "MessageArrived", message_id)
    return [
        INSERT(**row, **_payload_columns(payloads)),
        history.insert(HistoryRow(*arrived, to_state=state, detail=detail, at=now)),
    ]


# --- without the lock -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accepted:
    """`signal_id`: its Acknowledgement, which is claimed. `pushes`: there may be a consumer to
    which messages are delivered without its asking. `unreached`: the sender does not answer to what
    we send. `version`: that of the row that has its number, as this has written it."""

    signal_id: int
    pushes: bool
    unreached: bool
    version: str


class Acceptance(NamedTuple):
    """A statement for a message with one payload, which most have: six arrays of one element would
    cost a quarter of its CPU time on this side. And one for all others."""

    one: Statement[Accepted]
    many: Statement[Accepted]


def accept_if_unchanged(
    acceptance: Acceptance,
    partner: Partner,
    payloads: Sequence[Payload],
    values: Mapping[str, object],
) -> Accepted | None:
    """Accept a message in a transaction of its own. None, with nothing done, if the partner or
    something else that was decided by has changed meanwhile, or the MessageId is known."""
    one = len(payloads) == 1
    accept = (acceptance.one if one else acceptance.many)(
        **values,
        **(_one_payload if one else _payload_columns)(payloads),
        partner_id=partner.pk,
        credential_id=partner.credential_id,
        as_read=partner.as_read,
    )
    reach(CrashPoint.RECEIVE_BEFORE_COMMIT)
    try:
        (done,) = run(accept)
    except IntegrityError:  # a copy was stored at the same time; or under another number, or none
        return None
    reach(CrashPoint.RECEIVE_AFTER_COMMIT)
    return done[0] if done else None


# The Acknowledgement is claimed for the worker that a wake-up will name it to; after a second, the
# sweep claims it.
def _acceptance(
    unchanged: str, *, message: dict[str, str], signal: dict[str, str], unreached: str = "false"
) -> Acceptance:
    """`unchanged` gives one row, with the link and the version of the row that has the number, if
    everything is still in the version by which it was decided. `message` and `signal` are
    expressions of SQL by column, for what differs by dialect."""

    def statement(payloads: str) -> Statement[Accepted]:
        stored = _insert_message(
            payloads,
            source="FROM unchanged",
            link_id="link_id",
            state="'accepted'",
            received_at="statement_timestamp()",
            **message,
        )
        return Statement(
            f"""
    WITH unchanged AS ({unchanged}),
    {stored},
    entry AS ({_ARRIVED} FROM unchanged),
    signal AS (
        INSERT INTO msh_signal
            (link_id, kind, ref_to_message_id, tpa_id, conversation_id, first_at, due, expires_at,
             sending, tries, inbound_id, {", ".join(signal)})
        SELECT link_id, 'Acknowledgement', %(message_id)s, %(tpa_id)s, %(conversation_id)s,
               statement_timestamp(), statement_timestamp() + interval '1 second',
               statement_timestamp() + %(horizon)s * interval '1 second', true, 1, message.id,
               {", ".join(signal.values())}
        FROM unchanged, message
        RETURNING id)
    SELECT signal.id AS signal_id, version, {unreached} AS unreached,
           EXISTS (SELECT FROM msh_consumer WHERE enabled AND kind <> 'pull') AS pushes
    FROM signal, unchanged
    """,
            Accepted,
        )

    return Acceptance(statement(_ONE_PAYLOAD), statement(_PAYLOADS))


_ARRIVED = insert_one(
    at="statement_timestamp()",
    partner_id="%(partner_id)s",
    direction="'in'",
    message_id="%(message_id)s",
    event="'MessageArrived'",
    to_state="'accepted'",
    detail="%(detail)s",
)
_AGREEMENT_IN_VERSION = """
    FROM partners_agreement agreement
    WHERE agreement.id = %(agreement_id)s AND agreement.xmin = %(agreement_version)s
"""

# --- the draft ------------------------------------------------------------------------------------

# xmin is the transaction that wrote the row last. Whoever changes without this row what was decided
# by has to write the row nevertheless (docs/decisions/2026-11-21-at-once.md), or the guard here has
# to name it (docs/decisions/2026-11-23-one-statement.md). A message is ours if there is no route.
NEXT_OF_PAIR = _acceptance(
    f"""
        {SET_LAST_NUMBER} AND xmin = %(version)s AND {PARTNER_IN_VERSION} AND EXISTS (
            SELECT {_AGREEMENT_IN_VERSION}
              AND NOT EXISTS (
                  SELECT FROM partners_route
                  WHERE to_party = agreement.our_party
                    AND to_party_context IN ('', agreement.our_party_context)))
        RETURNING id AS link_id, xmin::text AS version""",
    message={
        "agreement_id": "%(agreement_id)s",
        "epoch": "%(epoch)s",
        "sequence_number": "%(last_number)s",
    },
    signal={"sequence_number": "%(last_number)s"},
)

# --- ebMS 2.0 -------------------------------------------------------------------------------------

# A copy that another transaction stores meanwhile has the MessageId: the constraint refuses this.
_IS_NEW = f"""
    {PARTNER_IN_VERSION}
    AND EXISTS (SELECT {_AGREEMENT_IN_VERSION})
    AND NOT EXISTS (
        SELECT FROM msh_inboundmessage
        WHERE link_id = %(link_id)s AND message_id = %(message_id)s)
    AND NOT EXISTS (
        SELECT FROM msh_signal
        WHERE link_id = %(link_id)s AND kind = 'Error'
          AND ref_to_message_id = %(message_id)s AND content_digest IS NOT NULL)
"""
_OF_EBMS = {
    "agreement_id": AGREEMENT_THAT_STAYS,
    "from_role": "%(from_role)s",
    "to_role": "%(to_role)s",
    "service_type": "%(service_type)s",
}
_ACKNOWLEDGMENT = {
    "content_type": "%(ack_type)s",
    "body": "%(ack)s",
    "kept": "true",
    "dialect": "'ebms2'",
}
_UNREACHED = """EXISTS (
               SELECT FROM msh_outboundlink
               WHERE partner_id = %(partner_id)s AND suspended_for = 'partner_unreachable')"""

UNORDERED = _acceptance(
    f"""
        SELECT id AS link_id, '' AS version FROM msh_inboundlink
        WHERE id = %(link_id)s AND {_IS_NEW}
        FOR KEY SHARE""",
    message=_OF_EBMS,
    signal=_ACKNOWLEDGMENT,
    unreached=_UNREACHED,
)

# With the lock of the link: who holds it reads in its next statement what this has stored.
NEXT_OF_CONVERSATION = _acceptance(
    f"""
        UPDATE msh_inboundconversation conversation
        SET next_number = %(next_number)s, last_at = statement_timestamp()
        FROM (SELECT id FROM msh_inboundlink WHERE id = %(link_id)s FOR NO KEY UPDATE) link
        WHERE conversation.id = %(ordered_in_id)s AND conversation.xmin = %(version)s AND {_IS_NEW}
        RETURNING link.id AS link_id, conversation.xmin::text AS version""",
    message=_OF_EBMS | {"ordered_in_id": "%(ordered_in_id)s", "order_number": "%(order_number)s"},
    signal=_ACKNOWLEDGMENT,
    unreached=_UNREACHED,
)
