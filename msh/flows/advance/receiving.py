"""What an operator says of the numbers that a partner sends."""

from django.db.models.functions import Now

from msh.models import History, InboundLink, Incident
from msh.protocol.effects import IncidentKind
from msh.protocol.receiver import OnUnexpectedFirst, ReceivingLink, ended_run
from partners.models import Agreement

from .actor import Actor

MENDED = (
    IncidentKind.SEQUENCE_GAP,
    IncidentKind.SEQUENCE_STALE,
    IncidentKind.SEQUENCE_CONFLICT,
    IncidentKind.RESET_HELD,
)
"""What such a word settles."""
NUMBERS = ("last_number", "epoch", "highest_number")


def set_receiving(
    link: InboundLink, after: ReceivingLink, event: str, detail: str, actor: Actor
) -> None:
    """Write the numbers of a locked link, and resolve what was open because of them."""
    before = link.receiving
    link.last_number, link.epoch = after.last_number, after.epoch
    link.highest_number = max(link.highest_number, ended_run(before, after))
    link.reset_allowed = after.reset_allowed
    if after.last_number != before.last_number:
        link.last_message_id = ""
    link.save(update_fields=[*NUMBERS, "reset_allowed", "last_message_id"])
    Incident.objects.filter(
        partner=link.partner_id, direction="in", kind__in=MENDED, resolved_at=None
    ).update(resolved_at=Now(), resolved_by=actor.name, resolution=actor.reason)
    History.objects.create(
        actor=actor.name,
        partner_id=link.partner_id,
        direction="in",
        subject="link",
        event=event,
        detail="; ".join(part for part in (detail, actor.reason) if part),
    )


def hold_resets(link: InboundLink, actor: Actor) -> bool:
    """Every agreement of the pair holds a number 1 out of turn, and a leave that was not used is
    taken back. False, and nothing changed, if it is so already. Needs the link locked."""
    others = Agreement.objects.filter(partner=link.partner_id).exclude(
        on_unexpected_first=OnUnexpectedFirst.HOLD
    )
    before = ", ".join(f"{one.tpa_id} {one.on_unexpected_first}" for one in others)
    if not before and not link.reset_allowed:
        return False
    others.update(on_unexpected_first=OnUnexpectedFirst.HOLD)
    InboundLink.objects.filter(pk=link.pk).update(reset_allowed=False)
    detail = f"on_unexpected_first was: {before}" if before else "an unused leave is taken back"
    History.objects.create(
        actor=actor.name,
        partner_id=link.partner_id,
        direction="in",
        subject="link",
        event="ResetsHeld",
        detail="; ".join(part for part in (detail, actor.reason) if part),
    )
    return True
