"""Inbound links and the messages we accept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from msh.protocol.message import Payload
from msh.store.engine import Key, Order, Statement, Write
from msh.store.sending.signals import LINK_THAT_STAYS


@dataclass(frozen=True, slots=True)
class InboundRow:
    """A link, what it knows of the MessageId that has arrived (`known_…`), and the agreement and
    route of the message, if there are any."""

    id: int
    last_number: int | None
    epoch: int
    reset_allowed: bool
    version: str
    known_id: int | None
    known_digest: bytes | None
    known_state: str | None
    route_id: int | None
    agreement_id: int | None
    agreement_version: str | None
    on_unexpected_first: str | None
    retry_horizon: int | None
    rate_reached_at: datetime | None
    now: datetime


@dataclass(frozen=True)
class LastNumber:
    """The columns of a link that a message with a number changes. `ended_run`: the last number of a
    run that the partner has ended by beginning again at 1, otherwise 0."""

    link_id: int
    last_number: int | None
    epoch: int
    ended_run: int
    reset_allowed: bool
    message_id: str


LOCK_LINK = Statement(
    """
    SELECT link.id FROM msh_inboundlink link
    WHERE link.partner_id = %(partner_id)s
    FOR NO KEY UPDATE OF link
    """,
    Key,
)

# A party configured without context is compared by its text alone (D63).
LOAD = Statement(
    """
    SELECT link.id, link.last_number, link.epoch, link.reset_allowed,
           link.xmin::text AS version,
           known.id AS known_id, known.content_digest AS known_digest,
           known.state AS known_state, route.id AS route_id,
           agreement.id AS agreement_id, agreement.xmin::text AS agreement_version,
           agreement.on_unexpected_first,
           agreement.timeout + agreement.retries * agreement.retry_interval AS retry_horizon,
           CASE WHEN %(rate)s::int > 0 THEN (
               SELECT received_at FROM msh_inboundmessage
               WHERE link_id = link.id AND epoch = link.epoch
                 AND sequence_number = link.last_number - %(rate)s::int + 1) END AS rate_reached_at,
           clock_timestamp() AS now
    FROM msh_inboundlink link
    LEFT JOIN msh_inboundmessage known
           ON known.link_id = link.id AND known.message_id = %(message_id)s
    LEFT JOIN partners_agreement agreement
           ON agreement.partner_id = link.partner_id AND agreement.tpa_id = %(tpa_id)s
          AND agreement.dialect = 'trp'
          AND agreement.their_party = %(their_party)s
          AND agreement.their_party_context IN ('', %(their_party_context)s)
          AND agreement.our_party = %(our_party)s
          AND agreement.our_party_context IN ('', %(our_party_context)s)
    LEFT JOIN LATERAL (
        SELECT id FROM partners_route
        WHERE to_party = agreement.our_party
          AND to_party_context IN ('', agreement.our_party_context)
        ORDER BY to_party_context DESC LIMIT 1) route ON true
    WHERE link.partner_id = %(partner_id)s
    """,
    InboundRow,
)

ONE_PAYLOAD = """
    SELECT id, 1, %(content_type)s, %(content_id)s, %(label)s, %(description)s, %(content)s
    FROM message
"""
PAYLOADS = """
    SELECT message.id, part.*
    FROM message,
         unnest(%(positions)s::int[], %(content_types)s::text[], %(content_ids)s::text[],
                %(labels)s::text[], %(descriptions)s::text[], %(contents)b::bytea[]) part
"""


def one_payload(payloads: Sequence[Payload]) -> Mapping[str, object]:
    """The values of ONE_PAYLOAD."""
    (payload,) = payloads
    return {
        "content_type": payload.content_type,
        "content_id": payload.content_id,
        "label": payload.label,
        "description": payload.description,
        "content": payload.content,
    }


def payload_columns(payloads: Sequence[Payload]) -> Mapping[str, object]:
    """The values of PAYLOADS."""
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


def insert_message(payloads: str = PAYLOADS, *, source: str = "", **values: str) -> str:
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


_IN_ORDER = ("state", "epoch", "sequence_number", "ordered_in_id", "order_number")
_OF_EBMS = ("from_role", "to_role", "service_type")
_INSERT = insert_message(
    link_id=LINK_THAT_STAYS,
    agreement_id=AGREEMENT_THAT_STAYS,
    **{name: f"%({name})s" for name in (*_IN_ORDER, *_OF_EBMS, "received_at")},
)
INSERT = Write(f"WITH {_INSERT} SELECT")


SET_LAST_NUMBER = """
    UPDATE msh_inboundlink
    SET last_number = %(last_number)s, epoch = %(epoch)s,
        highest_number = GREATEST(highest_number, %(ended_run)s),
        reset_allowed = %(reset_allowed)s, last_message_id = %(message_id)s
    WHERE id = %(link_id)s
"""
WRITE_LAST_NUMBER = Write(SET_LAST_NUMBER, order=Order.LINK)

COUNT_DUPLICATE = Write(
    "UPDATE msh_inboundmessage SET duplicates = duplicates + 1 WHERE id = %(key)s"
)
