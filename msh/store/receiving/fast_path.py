"""Fast path: the next message of a pair is taken without a lock; link and agreement are not read if
this process has cached them.

A cached row counts only together with a statement that finds it unchanged.
"""

from dataclasses import dataclass

from msh.protocol import effects as do
from msh.protocol import receiver
from msh.protocol.kinds import OnUnexpectedFirst
from msh.protocol.received import ReceivedMessage
from msh.protocol.receiver import Known, MessageArrived, ReceivingLink
from msh.store import capacity
from msh.store.cache import Cache
from msh.store.engine import run
from partners.models import Partner

from .accept import NEXT_OF_PAIR, Accepted, accept_if_unchanged
from .messages import message_columns
from .pairs import InboundRow, horizon_of, last_number, load_pair, pair_of

_Asked = tuple[int, str, str, str, str, str]
"""The key of an agreement: partner, TPAId, and both parties with their contexts."""


@dataclass(frozen=True, slots=True)
class _Link:
    """A link as this process wrote it last. `as_read`: the version of its partner at that time."""

    id: int
    version: str
    receiving: ReceivingLink
    as_read: str


@dataclass(frozen=True, slots=True)
class _Agreement:
    """An agreement without route, as it was read last. `horizon`: seconds for which an
    Acknowledgement is tried. `as_read`: the version of its partner at that time."""

    id: int
    version: str
    on_unexpected_first: OnUnexpectedFirst
    horizon: int
    as_read: str


_links: Cache[int, _Link] = Cache()
_agreements: Cache[_Asked, _Agreement] = Cache()


def accept_at_once(partner: Partner, message: ReceivedMessage) -> Accepted | Partner | None:
    """The fast path: take the next message of a pair without a lock, in one statement or two.

    1. Read the link with its version, what it knows of this MessageId, and the agreement; unless
       they are cached and this message is the next of the link.
    2. Decide by the Receiver's table, as `receive_message` does. Continue only if the effects are
       to accept the message and to queue its Acknowledgement, and no others.
    3. Write that in one statement, if the link and the agreement still have these versions, and
       `partner` is as it was cached.

    Otherwise nothing is done: returns the partner, for `receive_message`, which takes the lock; or
    None if it has changed since it was cached.
    """
    if not partner.in_use:
        return None
    asked = _asked(partner.pk, message)
    link, agreement = _links.get(partner.pk), _agreements.get(asked)
    if (
        link
        and agreement
        and link.as_read == agreement.as_read == partner.as_read
        and not partner.limits.any
        and not capacity.shortage()
    ):
        accepted = _accept(partner, message, link, agreement)
        if accepted is not None:
            return accepted
    (rows,) = run(load_pair(partner, message))
    if not rows or rows[0].as_read != partner.as_read:
        return None
    pair = pair_of(rows[0], partner, message)
    agreement = _agreement_of(rows[0], partner)
    # A route, a copy, a shortage: each needs the lock.
    if agreement is None or pair.known is not Known.NO or pair.postponed(partner, message):
        return partner
    _agreements.put(asked, agreement)
    link = _Link(pair.link_id, rows[0].version, pair.receiving, partner.as_read)
    return _accept(partner, message, link, agreement) or partner


def _accept(
    partner: Partner, message: ReceivedMessage, link: _Link, agreement: _Agreement
) -> Accepted | None:
    """MessageIds are not looked up here: the constraint refuses one that is known, also of a
    BestEffort message, which leaves the link as it is."""
    header, number = message.header, message.header.route.sequence_number
    if number is None:
        return None
    first = agreement.on_unexpected_first
    arrived = MessageArrived(header.message_id, number, Known.NO, first, None)
    after, effects = receiver.step(link.receiving, arrived)
    if effects != (do.Accept(number, after.epoch), do.QueueAck()):
        return None
    values = {
        **message_columns(message),
        **last_number(link.id, link.receiving, after, header.message_id),
        "version": link.version,
        "agreement_id": agreement.id,
        "agreement_version": agreement.version,
        "tpa_id": header.tpa_id,
        "horizon": agreement.horizon,
        "detail": f"number {number}",
    }
    accepted = accept_if_unchanged(NEXT_OF_PAIR, partner, message.payloads, values)
    if accepted is not None:
        _links.put(partner.pk, _Link(link.id, accepted.version, after, partner.as_read))
    return accepted


def _asked(partner_id: int, message: ReceivedMessage) -> _Asked:
    header = message.header
    theirs, ours = header.from_party, header.to_party
    return (
        *(partner_id, header.tpa_id),
        *(theirs.party_id, theirs.context, ours.party_id, ours.context),
    )


def _agreement_of(row: InboundRow, partner: Partner) -> _Agreement | None:
    if row.agreement_id is None or row.agreement_version is None or row.route_id is not None:
        return None
    first = OnUnexpectedFirst(row.on_unexpected_first or "accept")
    version, horizon = row.agreement_version, horizon_of(row)
    return _Agreement(row.agreement_id, version, first, horizon, partner.as_read)
