"""Two switches per partner: what applications submit is accepted, what came is delivered."""

from typing import Any

from msh.admin.framework.actions import OperatorAction
from msh.flows import operate
from msh.models import InboundLink, OutboundLink
from msh.store.history import Actor
from msh.store.operations.operator_actions import Switch

Link = OutboundLink | InboundLink


class SwitchPartner(OperatorAction):
    """One switch into one position."""

    def __init__(
        self, switch: Switch, model: str, title: str, icon: str, consequence: str, *, on: bool
    ) -> None:
        self.switch, self.on = switch, on
        self.name = f"{'start' if on else 'stop'}_{switch.value}"
        self.title, self.icon, self._consequence = title, icon, consequence
        self.permissions = (f"msh.view_{model}", "partners.switch_partner")

    def why_not(self, row: Link) -> str:
        if getattr(row.partner, self.switch.value) != self.on:
            return ""
        return f"that is {'on' if self.on else 'off'} already for {row.partner}."

    def consequence(self, row: Link) -> str:
        return f"{row.partner}: {self._consequence}"

    def act(self, row: Link, actor: Actor, **fields: Any) -> str:
        operate.switch(row.partner, self.switch, on=self.on, actor=actor)
        return f"{row.partner}: {self.title.lower()} is done."


ACCEPTING = (
    SwitchPartner(
        Switch.ACCEPTS,
        "outboundlink",
        "Refuse from applications",
        "lock",
        "what applications submit for this partner is refused, and they are told so. What is"
        " queued already is sent all the same. This lasts until somebody accepts again. The"
        " partner has nothing to do.",
        on=False,
    ),
    SwitchPartner(
        Switch.ACCEPTS,
        "outboundlink",
        "Accept from applications",
        "lock_open",
        "what applications submit for this partner is accepted again. They have to submit again"
        " what was refused. The partner has nothing to do.",
        on=True,
    ),
)
DELIVERING = (
    SwitchPartner(
        Switch.DELIVERS,
        "inboundlink",
        "Hold deliveries",
        "pause",
        "what comes from this partner is stored and acknowledged as before, and waits here: no"
        " consumer gets it until somebody delivers again. The partner has nothing to do.",
        on=False,
    ),
    SwitchPartner(
        Switch.DELIVERS,
        "inboundlink",
        "Deliver to consumers",
        "play_arrow",
        "what has waited is delivered in order, and what comes from now on. The partner has"
        " nothing to do.",
        on=True,
    ),
)
