"""The irreversible actions on a link to a partner: cancel with a verdict, reset (D17, D18)."""

from django import forms
from unfold.widgets import UnfoldAdminRadioSelectWidget

from msh.admin.framework.actions import ReasonForm
from msh.admin.messages.message_actions import VERDICTS, verdicts_on
from msh.flows.errors import NotPossible
from msh.flows.operations import link_actions
from msh.models import OutboundLink
from msh.protocol.kinds import Verdict
from msh.store.history import Actor

from .outbound_actions import LinkDialog


class VerdictForm(ReasonForm):
    field_order = ("verdict", "reason")

    verdict = forms.ChoiceField(choices=VERDICTS, widget=UnfoldAdminRadioSelectWidget())


class Cancel(LinkDialog):
    action = link_actions.CANCEL_IN_FLIGHT
    icon = "block"
    dismiss = "Keep message"
    form = VerdictForm

    def fit(self, form: ReasonForm, row: OutboundLink) -> ReasonForm:
        if row.in_flight is not None:
            form.fields["verdict"].choices = verdicts_on(row.in_flight)  # type: ignore[attr-defined]
        return form

    def consequence(self, row: OutboundLink) -> str:
        flying = row.lane.flying
        return (
            f"Message {flying.sequence_number} to {row.partner} is not sent again, and its sender"
            " is notified of your verdict. Ask the partner which verdict is true."
        )

    def act(self, row: OutboundLink, actor: Actor, form: ReasonForm) -> str:
        """Cancels the message that the dialog named, not one that is in flight since then."""
        if row.in_flight is None:
            raise NotPossible(f"No message is in flight to {row.partner}.")
        self.action.flow(row.in_flight, Verdict(form.cleaned_data["verdict"]), actor)
        return self.done(row)


class ResetSequence(LinkDialog):
    action = link_actions.RESET_SEQUENCE
    icon = "restart_alt"

    def version(self, row: OutboundLink) -> str:
        return f"{super().version(row)}, next number {row.next_number}"

    def consequence(self, row: OutboundLink) -> str:
        return (
            f"The next message to {row.partner} gets number 1 instead of {row.next_number}. This"
            " changes our side only: the partner must accept number 1 as a reset. Ask the partner"
            " first, or resynchronise instead."
        )


ACTIONS = (Cancel(), ResetSequence())
