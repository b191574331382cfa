"""The verbs on a link that cannot be taken back: cancel with a verdict, reset (D17, D18)."""

from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminSelectWidget

from msh.admin.framework.actions import ReasonForm
from msh.admin.messages.message_actions import VERDICTS, verdicts_on
from msh.flows import cancel, resynchronise
from msh.flows.operate import NotPossible
from msh.models import OutboundLink
from msh.protocol.events import MessageCancelled, SequenceReset, Verdict
from msh.store.history import Actor

from .outbound_actions import LinkAction


class VerdictForm(ReasonForm):
    """What the operator knows of the message, and why."""

    verdict = forms.ChoiceField(choices=VERDICTS, widget=UnfoldAdminSelectWidget())


class Cancel(LinkAction):
    name = "cancel"
    title = "Cancel the message in flight"
    done = "the message is cancelled"
    icon = "block"
    irreversible = True
    event = MessageCancelled(Verdict.RECEIVED)
    form = VerdictForm

    def form_for(self, row: OutboundLink, *data: Any, **options: Any) -> ReasonForm:
        form = VerdictForm(*data, **options)
        if row.in_flight is not None:
            form.fields["verdict"].choices = verdicts_on(row.in_flight)  # type: ignore[attr-defined]
        return form

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

    def act(self, row: OutboundLink, actor: Actor, **fields: Any) -> str:
        """Cancel the message that the dialog named, not whatever is in flight by now."""
        if row.in_flight is None:
            raise NotPossible(f"Nothing is in flight to {row.partner}.")
        cancel.cancel(row.in_flight, Verdict(fields["verdict"]), actor)
        row.refresh_from_db(fields=["state"])
        return f"Partner {row.partner}: {self.done}. The link is {row.state} now."


class ResetSequence(LinkAction):
    name = "reset_sequence"
    title = "Reset the sequence"
    done = "the next message gets number 1"
    icon = "restart_alt"
    irreversible = True
    event = SequenceReset()
    flow = resynchronise.reset_sequence

    def version(self, row: OutboundLink) -> str:
        return f"{super().version(row)}, next number {row.next_number}"

    def consequence(self, row: OutboundLink) -> str:
        return (
            f"The next message to {row.partner} gets number 1 instead of {row.next_number}. This"
            " changes our side only: the partner has to take number 1 as a reset. Ask it first, or"
            " resynchronise instead."
        )


ACTIONS = (Cancel(), ResetSequence())
