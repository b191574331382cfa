"""What an operator decides on a delivery."""

from typing import Any

from django.utils import timezone

from msh.admin.framework import markup
from msh.admin.framework.actions import OperatorAction
from msh.flows.decide import VERBS, decide
from msh.flows.operate import NotPossible
from msh.models import Delivery, InboundState
from msh.protocol.delivery import step
from msh.protocol.delivery_events import Delivery as Value
from msh.protocol.delivery_events import DeliveryState
from msh.protocol.errors import IllegalTransition
from msh.store.history import Actor

ACKNOWLEDGED = "The partner has nothing to do: it has its Acknowledgement."
_LEFT = "What waited behind it has gone on: it is delivered after that, out of order."

WORDS = {
    "run-again": (
        "Run again",
        "replay",
        (
            "It is given to its consumer again, as a new attempt with fresh retries. If the"
            " consumer has it already, only the Idempotency-Key keeps it from being taken twice."
        ),
    ),
    "mark-completed": (
        "Mark completed",
        "done_all",
        (
            "You say that the consumer has it. It is not given to it again; what waits behind it"
            " goes on."
        ),
    ),
    "ask-resolver": (
        "Ask the resolver",
        "help",
        "The consumer's resolver is asked what became of it, and is believed.",
    ),
    "park": (
        "Park",
        "inventory_2",
        (
            "What waits behind it goes on without it. It is not given to its consumer until you"
            " decide again: run again, mark completed or reject. If its outcome is in doubt, it"
            " stays so."
        ),
    ),
    "reject": (
        "Reject",
        "block",
        "It is not given to its consumer any more. It is kept; what waits behind it goes on.",
    ),
}


class Decide(OperatorAction):
    """One of the decisions on a delivery, as `flows.decide` names it."""

    permissions = ("msh.view_delivery", "msh.decide_delivery")

    def __init__(self, decision: str) -> None:
        self.decision = decision
        self.name = decision.replace("-", "_")
        self.title, self.icon, self._consequence = WORDS[decision]

    def why_not(self, row: Delivery) -> str:
        before = Value(
            DeliveryState(row.state), row.attempt, row.failures, row.due, _is_parked(row)
        )
        try:
            step(before, VERBS[self.decision], row.consumer.policy, now=timezone.now())
        except IllegalTransition:
            resolver = self.decision == "ask-resolver" and not row.consumer.resolver
            without = f" and consumer {row.consumer} has no resolver" if resolver else ""
            return f"the delivery is {row.get_state_display()}{without}."
        return ""

    def consequence(self, row: Delivery) -> str:
        message = row.message
        number = f"Message {message.sequence_number or ''}".strip()
        which = f"{number} of {message.link.partner}, {markup.escape_invisible(message.message_id)}"
        late = [_LEFT] if self.decision == "run-again" and _is_parked(row) else []
        tries = f"attempt {row.attempt}: {row.get_state_display()}"
        about = f"{which}, to consumer {row.consumer} ({tries})."
        return " ".join((about, self._consequence, *late, ACKNOWLEDGED))

    def version(self, row: Delivery) -> str:
        return f"attempt {row.attempt}"

    def act(self, row: Delivery, actor: Actor, **fields: Any) -> str:
        outcome = decide([row.pk], self.decision, actor)
        if outcome.refused:
            raise NotPossible(outcome.refused[0])
        return f"{self.title}: done."


def _is_parked(row: Delivery) -> bool:
    """It has left the order of its pair."""
    return bool(row.message.state == InboundState.PARKED)


def consequence_of_many(decision: str) -> str:
    late = f" Of a parked one: {_LEFT[0].lower()}{_LEFT[1:]}" if decision == "run-again" else ""
    return f"{WORDS[decision][2]}{late}"


DECISIONS = {name: Decide(name) for name in WORDS}
