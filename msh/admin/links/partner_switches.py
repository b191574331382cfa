"""The two switches of a partner: accept submissions, deliver messages."""

from typing import Any

from msh.admin.framework.actions import OperatorAction
from msh.flows.operations import change_link
from msh.models import InboundLink, OutboundLink
from msh.store.history import Actor
from msh.store.operations.operator_actions import Switch

Link = OutboundLink | InboundLink


class SwitchPartner(OperatorAction):
    """Turns one switch on or off."""

    def __init__(
        self,
        switch: Switch,
        model: str,
        title: str,
        icon: str,
        consequence: str,
        *,
        on: bool,
        done: str,
    ) -> None:
        self.switch, self.on = switch, on
        self.name = f"{'start' if on else 'stop'}_{switch.value}"
        self.title, self.icon, self._consequence, self.done = title, icon, consequence, done
        self.permissions = (f"msh.view_{model}", "partners.switch_partner")

    def why_not(self, row: Link) -> str:
        if getattr(row.partner, self.switch.value) != self.on:
            return ""
        return f"{self.done} already."

    def consequence(self, row: Link) -> str:
        return self._consequence

    def act(self, row: Link, actor: Actor, **fields: Any) -> str:
        change_link.switch(row.partner, self.switch, on=self.on, actor=actor)
        return f"Partner {row.partner}: {self.done}."


ACCEPTING = (
    SwitchPartner(
        Switch.ACCEPTS,
        "outboundlink",
        "Refuse submissions",
        "lock",
        "Applications that submit messages for this partner get an error. Messages in the queue are"
        " still sent. This lasts until somebody accepts submissions again. The partner does not"
        " have to do anything.",
        on=False,
        done="submissions are refused",
    ),
    SwitchPartner(
        Switch.ACCEPTS,
        "outboundlink",
        "Accept submissions",
        "lock_open",
        "Messages that applications submit for this partner are accepted again. Applications must"
        " submit refused messages again. The partner does not have to do anything.",
        on=True,
        done="submissions are accepted",
    ),
)
DELIVERING = (
    SwitchPartner(
        Switch.DELIVERS,
        "inboundlink",
        "Hold deliveries",
        "pause",
        "Messages from this partner are still stored and acknowledged, but not delivered to"
        " consumers until somebody resumes deliveries. The partner does not have to do anything.",
        on=False,
        done="deliveries are held",
    ),
    SwitchPartner(
        Switch.DELIVERS,
        "inboundlink",
        "Resume deliveries",
        "play_arrow",
        "The waiting messages are delivered in order, then new ones. The partner does not have to"
        " do anything.",
        on=True,
        done="deliveries are resumed",
    ),
)
