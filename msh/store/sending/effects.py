"""What an effect of a step writes: one method for each.

`Writer` has what a message to a partner has in common, in whatever way it is sent. A subclass adds
the effects of its own table, and its `METHODS` names them all.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from msh.protocol import effects as do
from msh.protocol.agreement import Terms
from msh.store import incidents
from msh.store.history import ITSELF, Actor

from . import message_sql, party_events
from .unit import UnitOfWork

Method = Callable[[Any, Any], None]


@lru_cache(maxsize=1000)
def text_of(terms: Terms) -> str:
    """Return the terms as they are stored with a message."""
    return json.dumps(asdict(terms))


@dataclass(slots=True)
class Writer:
    """Writes the effects of one step of messages to this partner, by this event and actor.

    `keys`: row id of each message that an effect may name, by MessageId.
    """

    METHODS: ClassVar[Mapping[type, Method]] = {}

    unit: UnitOfWork
    partner_id: int
    keys: Mapping[str, int]
    event: str
    actor: Actor = field(default=ITSELF)

    def write(self, effects: Iterable[object]) -> None:
        for effect in effects:
            self.METHODS[type(effect)](self, effect)

    def record(
        self,
        message_id: str,
        states: tuple[str, str] = ("", ""),
        detail: str = "",
        *,
        code: str = "",
        counts: bool = False,
    ) -> None:
        """Record what the MSH itself has done: the event of an operator has a row of its own."""
        about = (self.partner_id, message_id, self.event, states, detail)
        self.unit.record(*about, code=code, counts=counts)

    def transmit(self, effect: object) -> None:
        self.unit.transmits.add(self.partner_id)

    def open_incident(self, effect: do.OpenIncident) -> None:
        about = (self.partner_id, "out", effect.kind, effect.message_id, effect.detail)
        new = incidents.NewIncident(*about, self.unit.now, reason=effect.reason)
        self.unit.add(incidents.open_incident(new))

    def notify_from_party(self, effect: do.NotifyFromParty) -> None:
        self.unit.notifies = True
        key = self.keys[effect.message_id]
        what = (key, effect.kind, effect.detail, self.unit.now)
        event = party_events.insert_event(*what, code=effect.code)
        self.unit.add(event)

    def note(self, effect: do.Note) -> None:
        self.record(effect.message_id, detail=effect.detail, code=effect.code, counts=True)

    def count_duplicate_ack(self, effect: do.CountDuplicateAck) -> None:
        if effect.message_id in self.keys:
            self.unit.add(message_sql.COUNT_DUPLICATE_ACK(key=self.keys[effect.message_id]))

    def record_late_verdict(self, effect: do.RecordLateVerdict) -> None:
        message_id = effect.message_id
        text = "acknowledged after it was cancelled: received"
        about = {"partner_id": self.partner_id, "message_id": message_id}
        self.unit.add(message_sql.RECORD_LATE_VERDICT(key=self.keys[message_id]))
        self.unit.add(incidents.APPEND_TO_DETAIL(text=f"; {text}", **about))
        self.record(message_id, ("cancelled", ""), text)


COMMON: Mapping[type, Method] = {
    do.Transmit: Writer.transmit,
    do.NotifyFromParty: Writer.notify_from_party,
    do.Note: Writer.note,
    do.CountDuplicateAck: Writer.count_duplicate_ack,
}
"""What no way of sending writes otherwise."""
