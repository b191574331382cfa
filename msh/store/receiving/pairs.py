"""The pair of a message that has arrived, as it was read: with a lock, or in a version."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from msh.models import InboundLink
from msh.models.inbound import UNACKNOWLEDGED
from msh.protocol.admission import Postponed
from msh.protocol.kinds import OnUnexpectedFirst
from msh.protocol.received import ReceivedMessage, are_of_copies
from msh.protocol.receiver import Known, ReceivingLink
from msh.store import capacity
from msh.store.engine import Call, run
from partners.models import Partner

from . import message_sql
from .message_sql import InboundRow

SIGNAL_HORIZON = 60
"""Seconds for which a signal is tried at least, however short the agreement's horizon is."""


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
    lock, load = message_sql.LOCK_LINK(partner_id=partner.pk), load_pair(partner, message)
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
    return message_sql.LOAD(
        partner_id=partner.pk,
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
