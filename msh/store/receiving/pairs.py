"""The pair of a message that has arrived, as it was read: with a lock, or in a version."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from msh.models import InboundLink
from msh.models.inbound import UNACKNOWLEDGED
from msh.protocol import receiver
from msh.protocol.admission import Postponed
from msh.protocol.kinds import OnUnexpectedFirst
from msh.protocol.received import ReceivedMessage, are_of_copies
from msh.protocol.receiver import Known, ReceivingLink
from msh.store import capacity
from msh.store.engine import Call, Key, Order, Statement, Write, run
from msh.store.partner_columns import PARTNER_AS_READ
from partners.models import Partner

SIGNAL_HORIZON = 60
"""Seconds for which a signal is tried at least, however short the agreement's horizon is."""


@dataclass(frozen=True, slots=True)
class InboundRow:
    """A link, what it knows of the MessageId that has arrived (`known_…`), and the agreement and
    route of the message, if there are any. `as_read`: the version of its partner, None if its
    credential is gone."""

    as_read: str | None
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
    f"""
    SELECT {PARTNER_AS_READ}, link.id, link.last_number, link.epoch, link.reset_allowed,
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


@dataclass(frozen=True, slots=True)
class Pair:
    """The pair as it was read, with what it knows of this message."""

    partner_id: int
    link_id: int
    receiving: ReceivingLink
    known: Known
    known_id: int | None
    agreement_id: int | None
    route_id: int | None
    on_unexpected_first: OnUnexpectedFirst
    rate_reached_at: datetime | None
    expires_at: datetime
    now: datetime

    def postponed(self, partner: Partner, message: ReceivedMessage) -> Postponed | None:
        """Return why a message that is not known is not stored now, None if it is."""
        if self.known is not Known.NO:
            return None
        about = (partner.limits, self.link_id, message.payloads)
        return capacity.postponed(*about, self.rate_reached_at, self.now)


def lock_pair(partner: Partner, message: ReceivedMessage) -> Pair:
    lock, load = LOCK_LINK(partner_id=partner.pk), load_pair(partner, message)
    while True:
        locked, rows = run(lock, load)
        if locked and rows:
            return pair_of(rows[0], partner, message)
        # A partner that never sent has no link yet.
        inbound_link(partner.pk)


def inbound_link(partner_id: int) -> int:
    link, _ = InboundLink.objects.get_or_create(partner_id=partner_id)
    return link.pk


def load_pair(partner: Partner, message: ReceivedMessage) -> Call[InboundRow]:
    header = message.header
    return LOAD(
        partner_id=partner.pk,
        credential_id=partner.credential_id,
        rate=partner.rate_limit,
        message_id=header.message_id,
        tpa_id=header.tpa_id,
        their_party=header.from_party.party_id,
        their_party_context=header.from_party.context,
        our_party=header.to_party.party_id,
        our_party_context=header.to_party.context,
    )


def pair_of(row: InboundRow, partner: Partner, message: ReceivedMessage) -> Pair:
    return Pair(
        partner_id=partner.pk,
        link_id=row.id,
        receiving=ReceivingLink(row.last_number, row.epoch, row.reset_allowed),
        known=_known(row, message),
        known_id=row.known_id,
        agreement_id=row.agreement_id,
        route_id=row.route_id,
        on_unexpected_first=OnUnexpectedFirst(row.on_unexpected_first or "accept"),
        rate_reached_at=row.rate_reached_at,
        expires_at=row.now + timedelta(seconds=horizon_of(row)),
        now=row.now,
    )


def horizon_of(row: InboundRow) -> int:
    """Seconds for which signals about a message under this agreement are tried."""
    return max(row.retry_horizon or 0, SIGNAL_HORIZON)


def _known(row: InboundRow, message: ReceivedMessage) -> Known:
    if row.known_id is None or row.known_digest is None:
        return Known.NO
    if not are_of_copies(bytes(row.known_digest), message.content_digest):
        return Known.OTHER
    return Known.WITHHELD if row.known_state in UNACKNOWLEDGED else Known.SAME


# --- its last number ------------------------------------------------------------------------------

SET_LAST_NUMBER = """
    UPDATE msh_inboundlink
    SET last_number = %(last_number)s, epoch = %(epoch)s,
        highest_number = GREATEST(highest_number, %(ended_run)s),
        reset_allowed = %(reset_allowed)s, last_message_id = %(message_id)s
    WHERE id = %(link_id)s
"""
WRITE_LAST_NUMBER = Write(SET_LAST_NUMBER, order=Order.LINK)


def last_number(
    link_id: int, before: ReceivingLink, after: ReceivingLink, message_id: str
) -> dict[str, object]:
    """Return the values of SET_LAST_NUMBER."""
    return {
        "link_id": link_id,
        "last_number": after.last_number,
        "epoch": after.epoch,
        "ended_run": receiver.ended_run(before, after),
        "reset_allowed": after.reset_allowed,
        "message_id": message_id,
    }
