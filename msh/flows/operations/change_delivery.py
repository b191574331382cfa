"""Operators' decisions on one or many deliveries, each with actor and reason."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction

from msh.flows.errors import NotPossible
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import InboundPayload, RemovedInboundPayload
from msh.protocol.delivery.events import (
    CompletionMarked,
    DeliveryEvent,
    ParkRequested,
    RejectionMarked,
    ResolverRequested,
    RunAgainRequested,
)
from msh.protocol.errors import IllegalTransition
from msh.store.delivery import deliveries
from msh.store.delivery.deliveries import Consumers
from msh.store.history import Actor

AT_ONCE = 100
"""Deliveries that are locked and written in one transaction."""

DECISIONS: dict[str, DeliveryEvent] = {
    "run-again": RunAgainRequested(),
    "mark-completed": CompletionMarked(),
    "ask-resolver": ResolverRequested(),
    "reject": RejectionMarked(),
    "park": ParkRequested(),
}


@dataclass(frozen=True, slots=True)
class Decided:
    """Row ids of the deliveries that followed, and a sentence for each that did not."""

    done: Sequence[int]
    refused: Sequence[str]


def decide(keys: Iterable[int], decision: str, actor: Actor) -> Decided:
    """Do `decision` (one of DECISIONS) to these deliveries. What makes no sense for one of them is
    refused for that one, which stays as it is."""
    done: list[int] = []
    refused: list[str] = []
    ordered = sorted(set(keys))
    for start in range(0, len(ordered), AT_ONCE):
        some = ordered[start : start + AT_ONCE]
        consumers = Consumers()
        with transaction.atomic():
            held = {one.key: one for one in deliveries.lock_to_decide(some, consumers)}
            for key in some:
                reason = _decide(held.get(key), decision, actor)
                if reason:
                    refused.append(f"delivery {key}: {reason}")
                else:
                    done.append(key)
    if done:
        wake_up(WakeUp.DELIVER)
    return Decided(done, refused)


def decide_one(key: int, actor: Actor, *, decision: str) -> None:
    decided = decide([key], decision, actor)
    if decided.refused:
        raise NotPossible(decided.refused[0])


def _decide(handover: deliveries.HeldDelivery | None, decision: str, actor: Actor) -> str:
    """Why it cannot be done; empty if it was."""
    if handover is None:
        return "the delivery does not exist"
    if decision == "run-again" and lacks_payloads(handover.message_key):
        gone = f"the payloads of {handover.message_id} were removed by retention"
        return f"{decision} is not possible: {gone}; its sender must submit it again"
    try:
        handover.step(DECISIONS[decision], actor)
    except IllegalTransition:
        why = f"{handover.message_id} is {handover.value.state.replace('_', ' ')}"
        if decision == "ask-resolver" and not handover.consumer.resolver:
            why = f"consumer {handover.consumer} has no resolver"
        return f"{decision} is not possible: {why}"
    return ""


def lacks_payloads(message_key: int) -> bool:
    """True if retention has removed payloads of the message: what was rejected has ended. Those
    that are here are held, so that retention passes over them."""
    kept = InboundPayload.objects.select_for_update(no_key=True).filter(message=message_key)
    list(kept.values_list("pk", flat=True))
    return RemovedInboundPayload.objects.filter(message=message_key).exists()
