"""Operators' actions on ordered conversations: on the numbers of one that we send, and on one that
we receive and that has a missing number."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from msh.flows.errors import NotPossible, Proposal
from msh.flows.operations.guard import allowed
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import Direction, InboundConversation, OutboundConversation, place_of
from msh.protocol.errors import IllegalTransition
from msh.protocol.flight import conversation, numbering, serial
from msh.protocol.flight.conversation import Conversation, Outcome
from msh.protocol.flight.numbering import (
    ConversationRestarted,
    LastNumberSet,
    NumberingEvent,
    NumberingState,
)
from msh.protocol.four_eyes import Act, Verb
from msh.store.flights import conversations as numbers
from msh.store.flights.conversations import LockedConversation
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_links
from msh.store.receiving.conversations import (
    HeldConversation,
    change_conversation,
    lock_conversation,
)
from partners.models import Agreement, Partner

_Step = Callable[[Conversation, int, datetime], Outcome]
"""A step, called with the value, the horizon (seconds) and the time."""
_GivesUp = tuple[str, str, Mapping[str, int]]
"""An act that gives messages or numbers up: its name, what it does, and its parameters."""


def find_agreement(tpa_id: str, partner: Partner | None = None) -> Agreement:
    """The agreement with this TPAId. Raises NotPossible if there is none, or one with each of
    several partners."""
    found = Agreement.objects.filter(tpa_id=tpa_id).select_related("partner")
    if partner is not None:
        found = found.filter(partner=partner)
    agreements = list(found)
    if not agreements:
        raise NotPossible(f"No agreement {tpa_id}.")
    if len(agreements) > 1:
        names = ", ".join(agreement.partner.name for agreement in agreements)
        raise NotPossible(
            f"Several partners have an agreement {tpa_id} ({names}): add --partner NAME."
        )
    return agreements[0]


def _check_last(agreement: Agreement, last: int) -> None:
    if not agreement.has_order:
        raise NotPossible(f"Agreement {agreement} is not ordered: its messages have no numbers.")
    if not serial.FIRST <= last <= serial.LAST:
        raise NotPossible(f"The last number is {serial.FIRST} to {serial.LAST}, not {last}.")


def _require_seen(conversation_id: str, number: int, seen: int | None) -> None:
    """Raises NotPossible where somebody has seen another next number."""
    if seen not in (None, number):
        raise NotPossible(
            f"Conversation {conversation_id}: number {number} comes next, not {seen}."
            " It has changed in the meantime: check it again."
        )


# Conversations that are sent in order


def restart_conversation(
    agreement: Agreement, conversation_id: str, actor: Actor, if_next_number: int | None = None
) -> None:
    """Its next message gets number 0 with Reset. Raises NotPossible while one that was sent is
    neither acknowledged nor cancelled (EB-124), or if its next number is not `if_next_number`."""
    resets: _GivesUp = "restart_conversation", "its numbers restart at 0 with Reset", {}
    with transaction.atomic():
        held = _lock_numbered(agreement, conversation_id)
        _number(agreement, held, ConversationRestarted, "restart", actor, resets, if_next_number)


def start_order_out(
    agreement: Agreement,
    conversation_id: str,
    last: int,
    actor: Actor,
    if_next_number: int | None = None,
) -> None:
    """Continue the numbers of another MSH after `last`. Raises NotPossible as
    `restart_conversation`, and for a number that MessageOrder cannot have."""
    _check_last(agreement, last)
    open_links(agreement.partner)
    sets: _GivesUp = "start_order_out", f"its last number is {last}", {"last": last}
    with transaction.atomic():
        link_id = agreement.partner.outbound_link.pk
        numbers.open_conversation(link_id, agreement.pk, conversation_id)
        _number(
            agreement,
            _lock_numbered(agreement, conversation_id),
            lambda outstanding: LastNumberSet(last, outstanding),
            "set the numbers of",
            actor,
            sets,
            if_next_number,
        )


def _lock_numbered(agreement: Agreement, conversation_id: str) -> LockedConversation:
    held = numbers.lock_conversation(agreement, conversation_id)
    if held is None:
        raise NotPossible(
            f"No message of a conversation {conversation_id} was sent in order under {agreement}."
        )
    return held


def _number(
    agreement: Agreement,
    held: LockedConversation,
    event_of: Callable[[int], NumberingEvent],
    what: str,
    actor: Actor,
    act: _GivesUp,
    seen: int | None,
) -> None:
    """Step it by the event, which is made from how many of its messages are outstanding. Nobody is
    asked about what cannot be done, nor about a conversation in which nothing was sent."""
    name = held.row.conversation_id
    _require_seen(name, held.numbering.next_number, seen)
    event = event_of(numbers.count_outstanding(held.row.id))
    try:
        after = numbering.step(held.numbering, event)
    except IllegalTransition as refused:
        why = _WHY_NOT.get(refused.state, refused.state)
        raise NotPossible(f"Cannot {what} conversation {name}: {why}.") from None
    is_asked = held.numbering.state is not NumberingState.BEGINNING or actor.approval is not None
    with allowed(_renumbering(agreement, held, act), actor) if is_asked else nullcontext():
        numbers.change_conversation(held, event, after, actor)
    transaction.on_commit(lambda: wake_up(flights=[agreement.partner_id]))


def _renumbering(agreement: Agreement, held: LockedConversation, act: _GivesUp) -> Proposal:
    name, what, parameters = act
    value = held.numbering
    about = {"agreement": agreement.pk, "conversation": held.row.conversation_id}
    facts = f"the conversation is {value.state}, its next number is {value.next_number}"
    return Proposal(
        Act(Verb.RESET, name, {**about, **parameters}, facts),
        f"conversation {held.row.conversation_id} to {agreement.partner.name}: {what}.",
        agreement.partner_id,
        Direction.OUT,
        about=place_of(OutboundConversation(pk=held.row.id)),
    )


def why_not_numbered(row: OutboundConversation, event: NumberingEvent) -> str:
    """Why an operator's `event` may not happen to it now, as a clause; empty if it may."""
    try:
        numbering.step(row.numbering, event)
    except IllegalTransition as refused:
        return _WHY_NOT.get(refused.state, refused.state)
    return ""


_WHY_NOT: dict[str, str] = {
    NumberingState.BEGINNING: "nothing was sent in it, or it was already restarted",
    NumberingState.CONFIRMING: "its message with Reset is not acknowledged yet",
}


# Conversations that are received in order


@dataclass(frozen=True, slots=True)
class Done:
    """The number that comes next, and how many messages still wait for one before them."""

    next_number: int
    held: int

    @property
    def text(self) -> str:
        held = "1 message is held" if self.held == 1 else f"{self.held} messages are held"
        return f"Number {self.next_number} comes next; {held}"


@dataclass(frozen=True, slots=True)
class HoleChange:
    """The change for a missing number, with actor and reason. `gives_up`: what is given up, as the
    request for a second person says it; empty if nothing. Called, it raises NotPossible if nothing
    is held, or another number than `if_next_number` comes next."""

    name: str
    event: str
    step: _Step
    gives_up: str = ""

    def __call__(
        self,
        agreement: Agreement,
        conversation_id: str,
        actor: Actor,
        if_next_number: int | None = None,
    ) -> Done:
        act: _GivesUp | None = (self.name, self.gives_up, {}) if self.gives_up else None
        at = agreement, conversation_id
        return _change(*at, self.step, self.event, actor, act, if_next_number)


skip_missing = HoleChange(
    "skip_missing",
    "MissingSkipped",
    lambda value, horizon, now: conversation.skip(value, horizon, now=now),
    "the missing messages are given up as lost",
)
"""Deliver past the hole (EB-130, EB-132)."""
drop_held = HoleChange(
    "drop_held",
    "HeldDropped",
    lambda value, horizon, now: conversation.drop(value),
    "the held messages are given up",
)
"""Give up what is held: it is never delivered (EB-132)."""
extend_wait = HoleChange(
    "extend_wait",
    "WaitExtended",
    lambda value, horizon, now: conversation.extend_wait(value, horizon, now=now),
)
"""Wait for the number as long as before (EB-132)."""


def start_order_in(
    agreement: Agreement,
    conversation_id: str,
    last: int,
    actor: Actor,
    if_next_number: int | None = None,
) -> Done:
    """The number after `last` comes next: what is held below it is delivered, and so is what
    follows it (EB-130). Raises NotPossible for a number that is not ahead."""
    _check_last(agreement, last)
    number = serial.following(last)
    return _change(
        agreement,
        conversation_id,
        lambda value, horizon, now: conversation.expect(value, number, horizon, now=now),
        "ConversationStarted",
        actor,
        ("start_order_in", f"number {number} comes next", {"last": last}),
        if_next_number,
    )


def _change(
    agreement: Agreement,
    conversation_id: str,
    step: _Step,
    event: str,
    actor: Actor,
    gives_up: _GivesUp | None,
    seen: int | None,
) -> Done:
    open_links(agreement.partner)
    with transaction.atomic():
        held = lock_conversation(agreement, conversation_id)
        _require_seen(conversation_id, held.value.lacks, seen)
        try:
            after, effects = step(held.value, held.horizon, held.now)
        except IllegalTransition as refused:
            raise NotPossible(f"Conversation {conversation_id}: {refused.state}.") from None
        with allowed(_giving_up(agreement, held, gives_up), actor) if gives_up else nullcontext():
            change_conversation(held, after, effects, event, actor)
        transaction.on_commit(lambda: wake_up(WakeUp.DELIVER))
    return Done(after.lacks, len(after.held))


def _giving_up(agreement: Agreement, held: HeldConversation, act: _GivesUp) -> Proposal:
    name, what, parameters = act
    waiting = sorted(held.value.held)
    first = f", from {waiting[0]} to {waiting[-1]}" if waiting else ""
    return Proposal(
        Act(
            Verb.EXPECT,
            name,
            {"agreement": agreement.pk, "conversation": held.conversation_id, **parameters},
            f"number {held.value.lacks} comes next, {len(waiting)} messages are held{first}",
        ),
        f"conversation {held.conversation_id} from {agreement.partner.name}: {what}.",
        agreement.partner_id,
        Direction.IN,
        about=place_of(InboundConversation(pk=held.key)) if held.key else "",
    )
