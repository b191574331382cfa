"""Operators' decisions on one or many deliveries, each with actor and reason."""

from collections.abc import Collection, Iterable, Mapping, Sequence
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
        with transaction.atomic():
            why_not = _decide_together(ordered[start : start + AT_ONCE], decision, actor)
        done += [key for key, why in why_not.items() if not why]
        refused += filter(None, why_not.values())
    if done:
        wake_up(WakeUp.DELIVER)
    return Decided(done, refused)


def decide_one(key: int, actor: Actor, *, decision: str) -> None:
    decided = decide([key], decision, actor)
    if decided.refused:
        raise NotPossible(decided.refused[0])


def run_again_many(keys: Iterable[int], actor: Actor) -> Mapping[int, str]:
    """Run these again in the caller's transaction. Returns why not, a sentence, of each; empty if
    it was decided."""
    why_not = _decide_together(sorted(keys), "run-again", actor)
    transaction.on_commit(lambda: wake_up(WakeUp.DELIVER))
    return why_not


def _decide_together(keys: Sequence[int], decision: str, actor: Actor) -> dict[int, str]:
    held = {one.key: one for one in deliveries.lock_to_decide(keys, Consumers())}
    lacking = (
        lacking_payloads(one.message_key for one in held.values())
        if decision == "run-again"
        else ()
    )
    why_not = {}
    for key in keys:
        reason = _decide(held.get(key), decision, actor, lacking)
        why_not[key] = f"delivery {key}: {reason}" if reason else ""
    deliveries.write_together(held.values())
    return why_not


def _decide(
    handover: deliveries.HeldDelivery | None,
    decision: str,
    actor: Actor,
    lacking: Collection[int],
) -> str:
    """Why it cannot be done; empty if it was. `lacking`: messages without their payloads."""
    if handover is None:
        return "the delivery does not exist"
    if handover.message_key in lacking:
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


def lacking_payloads(message_keys: Iterable[int]) -> set[int]:
    """Those of these messages of which retention has removed payloads: what was rejected has ended.
    Payloads that are here are held, so that retention passes over them."""
    keys = list(message_keys)
    kept = InboundPayload.objects.select_for_update(no_key=True).filter(message__in=keys)
    list(kept.order_by("pk").values_list("pk", flat=True))
    removed = RemovedInboundPayload.objects.filter(message__in=keys)
    return set(removed.values_list("message_id", flat=True))
