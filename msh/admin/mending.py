"""The verbs on a link that cannot be taken back: cancel with a verdict, reset (D17, D18)."""

from django import forms
from unfold.widgets import UnfoldAdminSelectWidget

from msh.flows import cancel, resynchronise
from msh.flows.advance import Actor
from msh.flows.operate import NotPossible
from msh.models import OutboundLink
from msh.protocol.events import MessageCancelled, SequenceReset, Verdict
from msh.protocol.lane import LaneState
from partners.models import Partner

from .dialog import ReasonForm
from .verbs import LinkVerb

VERDICTS = [
    (Verdict.RECEIVED.value, "the partner has received it"),
    (Verdict.NOT_RECEIVED.value, "the partner has not received it, which must be proven"),
    (Verdict.UNKNOWN.value, "nobody knows: the numbers start again at 1"),
]


class VerdictForm(ReasonForm):
    """What the operator knows of the message, and why."""

    verdict = forms.ChoiceField(choices=VERDICTS, widget=UnfoldAdminSelectWidget())


def _cancel_in_flight(partner: Partner, actor: Actor, verdict: str) -> LaneState:
    link = OutboundLink.objects.select_related("in_flight").get(partner=partner)
    if link.in_flight is None:
        raise NotPossible(f"Nothing is in flight to {partner.name}.")
    cancel.cancel(cancel.find(link.in_flight.message_id, partner), Verdict(verdict), actor)
    link.refresh_from_db()
    return LaneState(link.state)


class Cancel(LinkVerb):
    name = "cancel"
    title = "Cancel the message in flight"
    done = "the message is cancelled"
    icon = "block"
    grave = True
    event = MessageCancelled(Verdict.RECEIVED)
    flow = _cancel_in_flight
    form = VerdictForm

    def consequence(self, row: OutboundLink) -> str:
        flying = row.lane.flying
        return (
            f"Message {flying.sequence_number} to {row.partner} is given up and its sender is told"
            " so, with your verdict. Received: the next message gets the number after it. Not"
            " received: the next one gets its number; this needs the proof that no byte of it was"
            " sent, or the word of the partner's MSH, which is asked. Unknown: the next one gets"
            " number 1; a copy that is still on its way may arrive all the same. The partner has"
            " to say which of them is true, and with unknown to take number 1 as a reset."
        )


class ResetSequence(LinkVerb):
    name = "reset_sequence"
    title = "Reset the sequence"
    done = "the next message gets number 1"
    icon = "restart_alt"
    grave = True
    event = SequenceReset()
    flow = resynchronise.reset_sequence

    def consequence(self, row: OutboundLink) -> str:
        return (
            f"The next message to {row.partner} gets number 1 instead of {row.next_number}. This"
            " changes our side only: the partner has to take number 1 as a reset. Ask it first, or"
            " resynchronise instead."
        )


VERBS = (Cancel(), ResetSequence())
