"""What operators do to a conversation that we receive in order and that lacks a number."""

from collections.abc import Callable
from dataclasses import dataclass

from django.db import transaction

from msh.flows.errors import NotPossible
from msh.flows.operations.change_link import open_links
from msh.flows.wake_up import WakeUp, wake_up
from msh.protocol.errors import IllegalTransition
from msh.protocol.flight import conversation, serial
from msh.protocol.flight.conversation import Outcome
from msh.store.history import Actor
from msh.store.receiving.conversations import (
    HeldConversation,
    change_conversation,
    lock_conversation,
)
from partners.models import Agreement

_Step = Callable[[HeldConversation], Outcome]


@dataclass(frozen=True, slots=True)
class Done:
    """The number that comes next, and how many messages still wait for one before them."""

    next_number: int
    held: int

    @property
    def text(self) -> str:
        return f"Number {self.next_number} comes next; {self.held} messages are held"


def start_order(agreement: Agreement, conversation_id: str, last: int, actor: Actor) -> Done:
    """The number after `last` comes next: what is held below it is delivered, and so is what
    follows it (EB-130). Raises NotPossible for a number that is not ahead."""
    if not agreement.ordered:
        raise NotPossible(f"Agreement {agreement} is not ordered: its messages have no numbers.")
    if not serial.FIRST <= last <= serial.LAST:
        raise NotPossible(f"The last number is {serial.FIRST} to {serial.LAST}, not {last}.")
    number = serial.following(last)
    return _change(
        agreement,
        conversation_id,
        lambda held: conversation.expect(held.value, number, held.horizon, now=held.now),
        "ConversationStarted",
        actor,
    )


def skip_missing(agreement: Agreement, conversation_id: str, actor: Actor) -> Done:
    """Deliver past the hole (EB-130, EB-132). Raises NotPossible if nothing is held."""
    return _change(
        agreement,
        conversation_id,
        lambda held: conversation.skip(held.value, held.horizon, now=held.now),
        "MissingSkipped",
        actor,
    )


def drop_held(agreement: Agreement, conversation_id: str, actor: Actor) -> Done:
    """Give up what is held: it is never delivered (EB-132). Raises NotPossible if nothing is."""
    return _change(
        agreement, conversation_id, lambda held: conversation.drop(held.value), "HeldDropped", actor
    )


def wait_on(agreement: Agreement, conversation_id: str, actor: Actor) -> Done:
    """Wait for the number as long as before (EB-132). Raises NotPossible if nothing is held."""
    return _change(
        agreement,
        conversation_id,
        lambda held: conversation.wait_on(held.value, held.horizon, now=held.now),
        "WaitedOn",
        actor,
    )


def _change(
    agreement: Agreement, conversation_id: str, step: _Step, event: str, actor: Actor
) -> Done:
    open_links(agreement.partner)
    with transaction.atomic():
        held = lock_conversation(agreement, conversation_id)
        try:
            after, effects = step(held)
        except IllegalTransition as refused:
            raise NotPossible(f"Conversation {conversation_id}: {refused.state}.") from None
        change_conversation(held, after, effects, event, actor)
        transaction.on_commit(lambda: wake_up(WakeUp.DELIVER))
    return Done(after.lacks, len(after.held))
