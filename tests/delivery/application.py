"""An application behind the MSH that does as a test tells it."""

from collections.abc import Callable
from typing import Any

from msh.models import Delivery, InboundMessage

taken: list[str] = []
"""MessageIds, in the order in which the consumer was called."""
resolved: list[str] = []
act: Callable[[InboundMessage], Any] | None = None
answer: Callable[[Delivery], Any] | None = None


def reset() -> None:
    global act, answer
    taken.clear()
    resolved.clear()
    act = answer = None


def consume(message: InboundMessage) -> Any:
    taken.append(message.message_id)
    return act(message) if act else None


def resolve(delivery: Delivery) -> Any:
    resolved.append(delivery.message.message_id)
    return answer(delivery) if answer else "in_doubt"
