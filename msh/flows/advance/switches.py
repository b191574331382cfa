"""What an operator lets a partner's messages do, apart from sending them."""

from enum import StrEnum

from msh.models import Direction, History
from partners.models import Partner

from .actor import Actor


class Switch(StrEnum):
    """The fields of a partner that are on, unless an operator has switched them off."""

    ACCEPTS = "accepts"
    DELIVERS = "delivers"


_TOLD_AS = {
    Switch.ACCEPTS: (Direction.OUT, "AcceptingSwitched"),
    Switch.DELIVERS: (Direction.IN, "DeliverySwitched"),
}


def set_switch(partner: Partner, switch: Switch, *, on: bool, actor: Actor) -> bool:
    """Turn it on or off. False, and nothing changed, if it is so already."""
    other = Partner.objects.filter(pk=partner.pk, **{switch.value: not on})
    if not other.update(**{switch.value: on}):
        return False
    direction, event = _TOLD_AS[switch]
    before, after = ("off", "on") if on else ("on", "off")
    History.objects.create(
        actor=actor.name,
        partner=partner,
        direction=direction,
        subject="link",
        event=event,
        from_state=before,
        to_state=after,
        detail=actor.reason,
    )
    return True
