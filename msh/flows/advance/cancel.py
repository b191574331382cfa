"""Messages that are cancelled before they got a number."""

from msh.models import OutboundMessage, hot
from msh.protocol.effects import PartyEventKind
from msh.protocol.events import Verdict

from .actor import Actor
from .lanes import Lanes


def cancel_queued(
    lanes: Lanes, message: OutboundMessage, partner_id: int, verdict: Verdict, actor: Actor
) -> None:
    """Have `lanes`, which hold its lane, write the end of a queued message. No number is spent."""
    lanes.touch(partner_id)
    lanes.add(hot.CANCEL_MESSAGE, (lanes.now, verdict, True, message.pk))
    note = (partner_id, message.message_id, "MessageCancelled", "queued", "cancelled")
    lanes.record(*note, f"outcome {verdict}", actor)
    told = (message.pk, PartyEventKind.CANCELLED, verdict, lanes.now, lanes.now)
    lanes.add(hot.NOTIFY_FROM_PARTY, told)
    lanes.notifies = True
