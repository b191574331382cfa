"""The two switches of a partner: accept submissions, deliver messages."""

from msh.admin.framework.actions import ActionDialog, ReasonForm
from msh.flows.operations import link_actions
from msh.flows.operations.operator_action import SwitchAction
from msh.models import InboundLink, OutboundLink
from msh.store.history import Actor

Link = OutboundLink | InboundLink


class SwitchPartner(ActionDialog[Link]):
    action: SwitchAction

    def __init__(self, action: SwitchAction, icon: str) -> None:
        self.action, self.icon = action, icon

    def why_not(self, row: Link) -> str:
        if getattr(row.partner, self.action.switch.value) != self.action.on:
            return ""
        return f"{self.action.done} already."

    def act(self, row: Link, actor: Actor, form: ReasonForm) -> str:
        self.action.flow(row.partner, actor=actor)
        return f"Partner {row.partner}: {self.action.done}."


ACCEPTING = (
    SwitchPartner(link_actions.REFUSE_SUBMISSIONS, "lock"),
    SwitchPartner(link_actions.ACCEPT_SUBMISSIONS, "lock_open"),
)
DELIVERING = (
    SwitchPartner(link_actions.HOLD_DELIVERIES, "pause"),
    SwitchPartner(link_actions.RESUME_DELIVERIES, "play_arrow"),
)
