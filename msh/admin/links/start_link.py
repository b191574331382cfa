"""Set the last number of a link that was never used: another MSH's numbers are continued (D50)."""

from unfold.widgets import UnfoldAdminIntegerFieldWidget

from msh.admin.framework.actions import ActionDialog, ReasonForm
from msh.flows.operations import link_actions
from msh.flows.operations.operator_action import LAST, OperatorAction
from msh.models import InboundLink, OutboundLink
from msh.store.history import Actor
from msh.store.operations.operator_actions import is_unused

from .inbound_actions import number_field

Link = OutboundLink | InboundLink


class LastNumberForm(ReasonForm):
    last = number_field(LAST, UnfoldAdminIntegerFieldWidget(), label="Last number")


class StartLink(ActionDialog[Link]):
    icon = "start"
    form = LastNumberForm

    def __init__(self, action: OperatorAction) -> None:
        self.action = action

    def why_not(self, row: Link) -> str:
        return "" if is_unused(row) else "the link is in use."

    def act(self, row: Link, actor: Actor, form: ReasonForm) -> str:
        last = form.cleaned_data["last"]
        self.action.flow(row.partner, last=last, actor=actor)
        return f"Partner {row.partner}: the last number is {last}."


SENDING = StartLink(link_actions.SET_LAST_NUMBER_OUT)
RECEIVING = StartLink(link_actions.SET_LAST_NUMBER_IN)
