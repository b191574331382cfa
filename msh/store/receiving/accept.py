"""Accept a message without a lock: one statement stores it with its payloads, its history and the
Acknowledgement that is pending for it, if all that was decided by is unchanged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import IntegrityError

from msh.faults import CrashPoint, reach
from msh.protocol.message import Payload
from msh.store.engine import Statement, run
from msh.store.history import insert_one
from msh.store.partner_columns import PARTNER_IN_VERSION
from partners.models import Partner

from .message_sql import (
    AGREEMENT_THAT_STAYS,
    ONE_PAYLOAD,
    PAYLOADS,
    SET_LAST_NUMBER,
    insert_message,
    one_payload,
    payload_columns,
)


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
        **(one_payload if one else payload_columns)(payloads),
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
        stored = insert_message(
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

    return Acceptance(statement(ONE_PAYLOAD), statement(PAYLOADS))


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
