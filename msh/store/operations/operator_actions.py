"""Writes of operators' actions on links and partners, apart from sending and deliveries: each with
its history row, in the caller's transaction."""

from collections.abc import Iterable
from enum import StrEnum

from django.db.models import Q

from msh.models import (
    Direction,
    History,
    InboundLink,
    OutboundLink,
    Signal,
    SignalKind,
)
from msh.protocol import sequence
from msh.protocol.kinds import OnUnexpectedFirst, PartyEventKind, Verdict
from msh.protocol.lane import LaneState
from msh.protocol.receiver import ReceivingLink, ended_run
from msh.store import history, incidents
from msh.store.engine import run
from msh.store.history import Actor
from msh.store.sending import message_sql, party_events
from msh.store.sending.links import OutboundLinks
from msh.store.sending.message_sql import LockedMessage, MessageOfLink
from partners.models import Agreement, Partner

STARTED, EXPECTED = "LinkStarted", "NumberExpected"
"""Events of the link's history: a person has set the last number, or the one that comes next."""
NUMBERS = ("last_number", "epoch", "highest_number")


class Switch(StrEnum):
    """The fields of a partner that are on, unless an operator has switched them off."""

    ACCEPTS = "accepts"
    DELIVERS = "delivers"


SWITCHED = {
    Switch.ACCEPTS: (Direction.OUT, "AcceptingSwitched"),
    Switch.DELIVERS: (Direction.IN, "DeliverySwitched"),
}
"""The event in the history, and of which link."""


def set_switch(partner: Partner, switch: Switch, *, on: bool, actor: Actor) -> bool:
    """Turn it on or off. False, and nothing changed, if it is so already."""
    other = Partner.objects.filter(pk=partner.pk, **{switch.value: not on})
    if not other.update(**{switch.value: on}):
        return False
    if on and switch is Switch.DELIVERS:
        incidents.resolve_held(partner.pk, actor)
    direction, event = SWITCHED[switch]
    before, after = ("off", "on") if on else ("on", "off")
    states = {"from_state": before, "to_state": after}
    history.record(history.link_row(partner.pk, direction, event, actor, **states))
    return True


def find_links(keys: Iterable[int]) -> list[MessageOfLink]:
    """Those of these messages, by row id, that are there; not locked. The link of a message and
    whether it flies never change."""
    (rows,) = run(message_sql.FIND_LINKS(keys=list(keys)))
    return rows


def lock_messages(keys: Iterable[int]) -> list[LockedMessage]:
    """Lock those of these messages that are there, waiting at most lock_timeout. Needs their links
    locked."""
    (rows,) = run(message_sql.LOCK(keys=list(keys)))
    return rows


def cancel_queued(
    links: OutboundLinks, message: LockedMessage, verdict: Verdict, actor: Actor
) -> None:
    """Have `links`, which hold its link, write the end of a queued message. It never had a
    number."""
    links.touch(message.partner_id)
    links.add(message_sql.CANCEL(key=message.id, at=links.now, outcome=verdict, free_number=True))
    states = ("queued", "cancelled")
    what = (message.partner_id, message.message_id, "MessageCancelled", states)
    links.record(*what, f"outcome {verdict}", actor)
    told = (message.id, PartyEventKind.CANCELLED, verdict, links.now)
    links.add(party_events.insert_event(*told, code=verdict))
    links.notifies = True


def set_receiving(
    link: InboundLink, after: ReceivingLink, event: str, detail: str, actor: Actor
) -> None:
    before = link.receiving
    link.last_number, link.epoch = after.last_number, after.epoch
    link.highest_number = max(link.highest_number, ended_run(before, after))
    link.reset_allowed = after.reset_allowed
    if after.last_number != before.last_number:
        link.last_message_id = ""
    link.save(update_fields=[*NUMBERS, "reset_allowed", "last_message_id"])
    incidents.resolve_numbers_out_of_step(link.partner_id, actor)
    history.record(history.link_row(link.partner_id, "in", event, actor, detail=detail))


def hold_resets(link: InboundLink, actor: Actor) -> bool:
    """Every agreement of the pair holds a number 1 out of turn, and a permission that was not used
    is withdrawn. False, and nothing changed, if it is so already. Needs the link locked."""
    others = Agreement.objects.filter(partner=link.partner_id).exclude(
        on_unexpected_first=OnUnexpectedFirst.HOLD
    )
    before = ", ".join(f"{one.tpa_id} {one.on_unexpected_first}" for one in others)
    if not before and not link.reset_allowed:
        return False
    others.update(on_unexpected_first=OnUnexpectedFirst.HOLD)
    InboundLink.objects.filter(pk=link.pk).update(reset_allowed=False)
    detail = f"on_unexpected_first was: {before}" if before else "reset allowed: yes → no"
    history.record(history.link_row(link.partner_id, "in", "ResetsHeld", actor, detail=detail))
    return True


def open_links(partner: Partner) -> None:
    """Create what is missing of the two links to a partner."""
    OutboundLink.objects.get_or_create(partner=partner)
    InboundLink.objects.get_or_create(partner=partner)


def open_missing_links() -> None:
    """The same for all partners."""
    OutboundLink.objects.bulk_create(
        [OutboundLink(partner=one) for one in Partner.objects.filter(outbound_link=None)],
        ignore_conflicts=True,
    )
    InboundLink.objects.bulk_create(
        [InboundLink(partner=one) for one in Partner.objects.filter(inbound_link=None)],
        ignore_conflicts=True,
    )


def is_unused(link: OutboundLink | InboundLink) -> bool:
    """Whether no message of it has a number yet, so that it can continue another MSH's (D50)."""
    if isinstance(link, OutboundLink):
        numbered = link.messages.filter(sequence_number__isnull=False)
        if link.state != LaneState.IDLE or numbered.exists():
            return False
        return link.next_number == sequence.FIRST or _was_started(link)
    return not link.last_message_id and not link.messages.exists()


def _was_started(link: OutboundLink) -> bool:
    """Whether its next number was set. If not, its messages had numbers and were pruned."""
    detail = _start_detail(sequence.preceding(link.next_number))
    started = History.objects.filter(
        Q(detail=detail) | Q(detail__startswith=f"{detail}; "),  # with a reason
        partner=link.partner_id,
        direction=Direction.OUT,
        subject=history.LINK,  # by index
        event=STARTED,
    )
    return started.exists()


def _start_detail(last: int) -> str:
    return f"last number {last}"


def start_link(partner: Partner, direction: str, last: int, actor: Actor) -> bool:
    """Set the last number of an unused link. False, and nothing changed, if it was used."""
    start = _start_outbound if direction == "out" else _start_inbound
    if not start(partner, last):
        return False
    detail = _start_detail(last)
    history.record(history.link_row(partner.pk, direction, STARTED, actor, detail=detail))
    return True


def _start_outbound(partner: Partner, last: int) -> bool:
    link = OutboundLink.objects.select_for_update(no_key=True).get(partner=partner)
    if not is_unused(link):
        return False
    link.next_number = sequence.following(last)
    link.epoch = sequence.epoch_following(last, link.epoch)
    link.save(update_fields=["next_number", "epoch"])
    return True


def _start_inbound(partner: Partner, last: int) -> bool:
    link = InboundLink.objects.select_for_update(no_key=True).get(partner=partner)
    if not is_unused(link):
        return False
    link.last_number = last
    link.save(update_fields=["last_number"])
    return True


def take_back_refusal(partner: Partner, message_id: str, actor: Actor) -> str | None:
    """A message that was refused for good is not known any more. What its Error said; None, and
    nothing changed, if no refusal is kept."""
    errors = Signal.objects.filter(
        link__partner=partner, kind=SignalKind.ERROR, ref_to_message_id=message_id
    )
    kept = errors.kept_refusals().select_for_update(no_key=True, of=("self",))
    refused = kept.order_by("pk").first()
    if refused is None:
        return None
    errors.update(content_digest=None, pending=0)
    detail = history.with_reason(f"{refused.code}: {refused.description}", actor)
    about = (partner.pk, "in", "RefusalTakenBack", message_id)
    history.record(history.HistoryRow(*about, detail=detail, actor=actor.name))
    return refused.description
