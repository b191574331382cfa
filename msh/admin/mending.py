"""The verbs that change numbers or end a message: cancel, reset, resynchronise (D17, D18, D43)."""

from django import forms
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminSelectWidget

from msh.flows import cancel, resynchronise
from msh.flows.advance import Actor
from msh.flows.operate import NotPossible
from msh.models import OutboundLink
from msh.protocol.events import (
    MessageCancelled,
    Numbered,
    SequenceReset,
    SequenceRewound,
    Verdict,
)
from msh.protocol.lane import LaneState
from partners.models import Partner

from .verbs import ReasonForm, Verb

VERDICTS = [
    (Verdict.RECEIVED.value, "the partner has received it"),
    (Verdict.NOT_RECEIVED.value, "the partner has not received it, which must be proven"),
    (Verdict.UNKNOWN.value, "nobody knows: the numbers start again at 1"),
]


class VerdictForm(ReasonForm):
    """What the operator knows of the message, and why."""

    given = ("verdict",)
    verdict = forms.ChoiceField(choices=VERDICTS, widget=UnfoldAdminSelectWidget())


def _cancel_in_flight(partner: Partner, actor: Actor, verdict: str) -> LaneState:
    link = OutboundLink.objects.select_related("in_flight").get(partner=partner)
    if link.in_flight is None:
        raise NotPossible(f"Nothing is in flight to {partner.name}.")
    cancel.cancel(cancel.find(link.in_flight.message_id, partner), Verdict(verdict), actor)
    link.refresh_from_db()
    return LaneState(link.state)


def _cancels(link: OutboundLink) -> str:
    flying = link.lane.in_flight
    if flying is None:
        return ""
    return (
        f"Message {flying.sequence_number} to {link.partner} is given up and its sender is told so,"
        " with your verdict. Received: the next message gets the number after it. Not received: the"
        " next one gets its number; this needs the proof that no byte of it was sent, or the word"
        " of the partner's MSH, which is asked. Unknown: the next one gets number 1; a copy that is"
        " still on its way may arrive all the same."
    )


def _resets(link: OutboundLink) -> str:
    return (
        f"The next message to {link.partner} gets number 1 instead of {link.next_number}. The"
        " partner has to take that as a reset: ask it first, or resynchronise instead."
    )


def _resynchronise(partner: Partner, actor: Actor) -> LaneState:
    resynchronise.apply(partner, resynchronise.ask(partner), actor)
    return LaneState(OutboundLink.objects.get(partner=partner).state)


def _compares(link: OutboundLink) -> str:
    """Asks the partner's MSH: the dialog takes as long as that answers."""
    try:
        compared = resynchronise.compare(link.partner, resynchronise.ask(link.partner))
    except NotPossible as problem:
        return f"{problem} On the command line: manage.py resynchronise {link.partner}."
    made = compared.plan
    return (
        f"{made.text} May be lost: {made.lost or 'nothing'}. May be doubled:"
        f" {made.doubled or 'nothing'}. From the partner: {compared.arriving_text} Then sending"
        " resumes."
    )


CANCEL = Verb(
    name="cancel",
    title="Cancel the message in flight",
    done="the message is cancelled",
    icon="block",
    variant=ActionVariant.DANGER,
    flow=_cancel_in_flight,
    event=MessageCancelled(Verdict.RECEIVED),
    consequence=_cancels,
    form=VerdictForm,
)
RESET_SEQUENCE = Verb(
    name="reset_sequence",
    title="Reset the sequence",
    done="the next message gets number 1",
    icon="restart_alt",
    variant=ActionVariant.DANGER,
    flow=resynchronise.reset_sequence,
    event=SequenceReset(),
    consequence=_resets,
)
RESYNCHRONISE = Verb(
    name="resynchronise",
    title="Resynchronise and resume",
    done="the numbers agree",
    icon="sync",
    variant=ActionVariant.PRIMARY,
    flow=_resynchronise,
    event=SequenceRewound(Numbered(0, 1)),
    consequence=_compares,
)
VERBS = (RESYNCHRONISE, CANCEL, RESET_SEQUENCE)
