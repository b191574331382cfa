"""Links before their first message: that they are there, and the first number of one that
takes over from another MSH (D50)."""

from msh.models import History, InboundLink, OutboundLink, OutboundMessage
from msh.protocol import sequence
from msh.protocol.lane import LaneState
from partners.models import Partner

from .actor import Actor


def open_missing_links() -> None:
    """Make the links of every partner that has none, in a few statements however many those are."""
    OutboundLink.objects.bulk_create(
        [OutboundLink(partner=one) for one in Partner.objects.filter(outbound_link=None)],
        ignore_conflicts=True,
    )
    InboundLink.objects.bulk_create(
        [InboundLink(partner=one) for one in Partner.objects.filter(inbound_link=None)],
        ignore_conflicts=True,
    )


def start_link(partner: Partner, direction: str, last: int, actor: Actor) -> bool:
    """Set the last number of an unused link. False, and nothing changed, if it was used."""
    start = _start_outbound if direction == "out" else _start_inbound
    if not start(partner, last):
        return False
    History.objects.create(
        actor=actor.name,
        partner=partner,
        direction=direction,
        subject="link",
        event="LinkStarted",
        detail=f"last number {last}; {actor.reason}".rstrip("; "),
    )
    return True


def _start_outbound(partner: Partner, last: int) -> bool:
    link = OutboundLink.objects.select_for_update(no_key=True).get(partner=partner)
    numbered = OutboundMessage.objects.filter(link=link, sequence_number__isnull=False)
    if link.state != LaneState.IDLE or numbered.exists():
        return False
    link.next_number = sequence.following(last)
    link.epoch = sequence.epoch_following(last, link.epoch)
    link.save(update_fields=["next_number", "epoch"])
    return True


def _start_inbound(partner: Partner, last: int) -> bool:
    link = InboundLink.objects.select_for_update(no_key=True).get(partner=partner)
    if link.last_message_id or link.messages.exists():
        return False
    link.last_number = last
    link.save(update_fields=["last_number"])
    return True
