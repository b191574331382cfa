"""The decisions of an operator on a delivery."""

from typing import Any

from django.utils import timezone

from msh.admin.framework import markup
from msh.admin.framework.actions import OperatorAction
from msh.flows.errors import NotPossible
from msh.flows.operations.change_delivery import VERBS, decide
from msh.models import Delivery, InboundState
from msh.protocol.delivery import step
from msh.protocol.delivery_events import Delivery as Value
from msh.protocol.delivery_events import DeliveryState
from msh.protocol.errors import IllegalTransition
from msh.store.history import Actor

ACKNOWLEDGED = "The partner does not have to do anything: it has its Acknowledgement."
_LEFT = "Messages behind it have been delivered already: it is delivered out of order."

WORDS = {
    "run-again": (
        "Run again",
        "replay",
        (
            "The message is delivered to its consumer again, as a new attempt with all retries. If"
            " the consumer already has it, only the Idempotency-Key prevents double processing."
        ),
    ),
    "mark-completed": (
        "Mark completed",
        "done_all",
        (
            "You confirm that the consumer has the message. It is not delivered again; messages"
            " behind it are delivered."
        ),
    ),
    "ask-resolver": (
        "Ask resolver",
        "help",
        "The consumer's resolver is asked for the outcome, which is then recorded.",
    ),
    "park": (
        "Park",
        "inventory_2",
        (
            "Messages behind it are delivered. The message itself is not delivered until you decide"
            " again: run again, mark completed or reject. If its outcome is in doubt, it stays in"
            " doubt."
        ),
    ),
    "reject": (
        "Reject",
        "block",
        "The message is stored but not delivered any more. Messages behind it are delivered.",
    ),
}


class Decide(OperatorAction):
    """A decision of `flows.decide`."""

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
    """Whether the messages behind it no longer wait for it."""
    return bool(row.message.state == InboundState.PARKED)


def consequence_of_many(decision: str) -> str:
    late = f" If parked: {_LEFT[0].lower()}{_LEFT[1:]}" if decision == "run-again" else ""
    return f"{WORDS[decision][2]}{late}"


DECISIONS = {name: Decide(name) for name in WORDS}
