"""The simulation can fail: cores with one fault each are all caught.

Three of the faults are met so seldom that a search takes minutes: they are searched for where
MSH_EXAMPLES is set, in as many walks. In the suite a walk that is written by hand catches the one
of the draft, and the tables that are written by hand catch those of ebMS.
"""

import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol import receiver, sequence
from msh.protocol.errors import IllegalTransition
from msh.protocol.flight import DeadlinePassed, arrival, conversation, numbering
from msh.protocol.flight.gate import Gate
from msh.protocol.flight.serial import Order, following
from msh.protocol.flight.value import Flight, FlightState
from msh.protocol.kinds import Verdict
from msh.protocol.lane import Lane, LaneState
from msh.protocol.receiver import Known, Position

from .world import flight_hosts as flights
from .world import lanes
from .world.flights import FlightWorld
from .world.lanes import LaneWorld
from .world.link import Fate, Violation
from .world.walk import Walk

EXAMPLES = int(os.environ.get("MSH_EXAMPLES", "0"))
WALKS = EXAMPLES or 1_000

Step = Callable[..., Any]

# --- ways to go wrong -------------------------------------------------------------------------


def hears(step: Step, change: Callable[[Any, Any], Any]) -> Step:
    """It takes an event for another one: `change(before, event)`."""
    return lambda before, event, *rest: step(before, change(before, event), *rest)


def keeps(step: Step, change: Callable[[Any, Any, Any], dict[str, Any]]) -> Step:
    """It writes something else: `change(before, event, after)` are the fields."""

    def faulty(before: Any, event: Any, *rest: Any) -> Any:
        after, effects = step(before, event, *rest)
        return replace(after, **change(before, event, after)), effects

    return faulty


def says(step: Step, change: Callable[[Any, Any], Any]) -> Step:
    """It does something else: `change(event, effect)`, or nothing if that is None."""

    def faulty(before: Any, event: Any, *rest: Any) -> Any:
        after, effects = step(before, event, *rest)
        changed = (change(event, effect) for effect in effects)
        return after, tuple(effect for effect in changed if effect is not None)

    return faulty


def ignores(step: Step, is_ignored: Callable[[Any, Any], bool]) -> Step:
    """An event changes nothing, if `is_ignored(before, event)`."""

    def faulty(before: Any, event: Any, *rest: Any) -> Any:
        return (before, ()) if is_ignored(before, event) else step(before, event, *rest)

    return faulty


def without(kind: type, of: type = object) -> Callable[[Any, Any], Any]:
    return lambda event, effect: (
        None if isinstance(effect, kind) and isinstance(event, of) else effect
    )


def on_event(kind: type, **changes: Any) -> Callable[[Any, Any, Any], dict[str, Any]]:
    return lambda before, event, after: changes if isinstance(event, kind) else {}


def forgotten(event: Any, is_forgotten: bool) -> Any:
    """Its MessageId is not known, if so."""
    return replace(event, known=Known.NO) if is_forgotten else event


# --- faulty Senders of the draft --------------------------------------------------------------


def takes_2xx_for_an_ack(lane: Lane, event: Any) -> Any:
    is_2xx = isinstance(event, on.AttemptTransmitted) and lane.state is LaneState.WAITING
    return on.AckReceived(lane.in_flight.message_id) if is_2xx and lane.in_flight else event


def takes_any_ack(lane: Lane, event: Any) -> Any:
    other = isinstance(event, on.AckOfOtherReceived)
    return on.AckReceived(lane.in_flight.message_id) if other and lane.in_flight else event


def leaves_a_gap_after_a_cancel(lane: Lane, event: Any) -> Any:
    cancelled = isinstance(event, on.MessageCancelled)
    return on.MessageCancelled(Verdict.RECEIVED) if cancelled else event


def numbers_a_retry_anew(lane: Lane, event: Any, after: Lane) -> dict[str, Any]:
    sent_again = isinstance(event, on.DeadlinePassed) and after.unsent and not lane.unsent
    if not sent_again:
        return {}
    anew = replace(after.flying, sequence_number=after.next_number)
    return {"in_flight": anew, "next_number": sequence.following(after.next_number)}


def forgets_the_wait(lane: Lane, event: Any, after: Lane) -> dict[str, Any]:
    """An Ack during a transient wait leaves an empty lane that nothing wakes."""
    empty = after.state is LaneState.TRANSIENT and after.in_flight is None
    return {"due": None} if empty else {}


def does_not_wrap(lane: Lane, event: Any, after: Lane) -> dict[str, Any]:
    wraps = after.next_number == 1 and lane.next_number == sequence.LAST
    return {"next_number": 2} if wraps else {}


def counts_a_lost_wake_up(lane: Lane, event: Any, after: Lane) -> dict[str, Any]:
    if not isinstance(event, on.AttemptClaimed) or not lane.promised:
        return {}
    return {"in_flight": replace(after.flying, retries_spent=after.flying.retries_spent + 1)}


def claims_a_lost_wake_up_under_its_number(lane: Lane, event: Any, after: Lane) -> dict[str, Any]:
    """One attempt number for two copies: the end of one is taken for the end of both (D18)."""
    claimed = isinstance(event, on.AttemptClaimed) and lane.promised
    return {"in_flight": lane.in_flight} if claimed else {}


def gives_up_the_head(lane: Lane, event: Any, now: Any) -> Any:
    """Retries spent: on with the next one, as if it had been acknowledged."""
    after, effects = lanes.pure_sender(lane, event, now)
    if isinstance(event, on.DeadlinePassed) and after.state is LaneState.SUSPENDED:
        return after.transmits(after.flying, now).ends_flight(), (do.PollLane(),)
    return after, effects


def retries_without_end(lane: Lane, event: Any, now: Any) -> Any:
    after, effects = lanes.pure_sender(lane, event, now)
    if isinstance(event, on.DeadlinePassed) and after.state is LaneState.SUSPENDED:
        flying = replace(after.flying, retries_spent=after.flying.retries_spent + 1)
        return after.transmits(flying, now), (do.Transmit(),)
    return after, effects


LANE = lanes.pure_sender
UNDER_ITS_NUMBER = lanes.Cores(keeps(LANE, claims_a_lost_wake_up_under_its_number))
SENDERS: dict[str, Step] = {
    "takes 2xx for an Ack": hears(LANE, takes_2xx_for_an_ack),
    "takes any Ack": hears(LANE, takes_any_ack),
    "numbers a retry anew": keeps(LANE, numbers_a_retry_anew),
    "gives up the head": gives_up_the_head,
    "suspends in silence": says(LANE, without(do.OpenIncident)),
    "waits for ever": keeps(LANE, on_event(on.AttemptClaimed, due=None)),
    "forgets to resend": keeps(LANE, on_event(on.OperatorResumed, unsent=False, due=None)),
    "forgets the wait": keeps(LANE, forgets_the_wait),
    "does not wrap": keeps(LANE, does_not_wrap),
    "leaves a gap after a cancel": hears(LANE, leaves_a_gap_after_a_cancel),
    "retries without end": retries_without_end,
    "resumes and leaves the incident": says(LANE, without(do.ResolveIncidents, on.AckReceived)),
    "counts a lost wake-up": keeps(LANE, counts_a_lost_wake_up),
    "sends again what was promised": ignores(
        LANE, lambda lane, event: isinstance(event, on.AttemptTransmitted) and lane.promised
    ),
    "forgets that a copy was begun": ignores(
        LANE, lambda lane, event: isinstance(event, on.AttemptBegun)
    ),
    "keeps a promise for ever": keeps(LANE, on_event(on.CopyPromised, due=None)),
}


# --- faulty Receivers of the draft ------------------------------------------------------------


def asks_the_number_before_the_id(link: receiver.ReceivingLink, event: Any) -> Any:
    """The draft's own 5.2(3): number 1 is never a repeat (D1)."""
    where = receiver.position(link.last_number, event.sequence_number)
    return forgotten(event, where in (Position.ONE, Position.NEXT))


def never_acknowledges_a_duplicate(event: Any, effect: Any) -> Any:
    return None if event.known is Known.SAME and isinstance(effect, do.QueueAck) else effect


LINK = receiver.step
RECEIVERS: dict[str, Step] = {
    "asks the number before the id": hears(LINK, asks_the_number_before_the_id),
    "forgets ids": hears(
        LINK, lambda link, event: forgotten(event, event.sequence_number != link.last_number)
    ),
    "acknowledges before it stores": says(LINK, without(do.Accept)),
    "never acknowledges a duplicate": says(LINK, never_acknowledges_a_duplicate),
}


# --- faulty Senders of ebMS -------------------------------------------------------------------


def takes_2xx_for_an_acknowledgment(flight: Flight, event: Any) -> Any:
    is_2xx = isinstance(event, on.AttemptTransmitted) and flight.state is FlightState.WAITING
    return on.AckReceived(flight.message_id) if is_2xx else event


def spends_no_retry(before: Flight, event: Any, after: Any) -> dict[str, Any]:
    spent = isinstance(event, on.AttemptClaimed) and before.copies == 1
    return {"copies": 1} if spent else {}


def sends_one_copy_more(flight: Flight, event: Any, now: Any) -> Any:
    if isinstance(event, DeadlinePassed) and flight.copies == flight.terms.retries + 1:
        more = replace(flight.terms, retries=flight.terms.retries + 1)
        after, effects = flights.pure_flight(replace(flight, terms=more), event, now)
        return replace(after, terms=flight.terms), effects
    return flights.pure_flight(flight, event, now)


def gives_its_place_away(before: Any, event: Any, after: Flight) -> dict[str, Any]:
    """While it waits for a retry."""
    return {"under_way": False} if after.state is FlightState.READY else {}


def keeps_its_place(before: Flight, event: Any, after: Any) -> dict[str, Any]:
    """For ever: the window fills with messages that have ended."""
    return {"under_way": before.under_way or after.under_way}


def reports_a_partner_that_answers(flight: Flight, event: Any, now: Any) -> Any:
    """Every message without an answer is put down to the partner, and waits again for nothing."""
    if isinstance(event, DeadlinePassed) and flight.budget_spent:
        return replace(flight.is_ready(now), copies=0), (do.Transmit(),)
    return flights.pure_flight(flight, event, now)


def does_not_stop(before: numbering.Numbering, event: Any) -> numbering.Numbering:
    stopped = isinstance(event, numbering.MessageStopped)
    return before if stopped else numbering.step(before, event)


def goes_on_after_a_loss(before: numbering.Numbering, event: Any) -> numbering.Numbering:
    return replace(numbering.step(before, event), broken=False)


def leaves_a_gap(before: numbering.Numbering) -> Order:
    number = before.next_number
    return Order(following(number) if number == 2 else number, before.resets)


def in_window(change: Callable[[int, int], tuple[int, int]]) -> Step:
    """`change(under_way, window)` is what it reckons with."""
    return lambda gate, flight, under_way, window, now: flights.pure_leave(
        gate, flight, *change(under_way, window), now
    )


def probes_for_ever(gate: Gate, event: Any) -> bool:
    """A probe that is answered opens nothing."""
    return isinstance(event, on.AttemptTransmitted) and gate.due is not None


FLIGHT, GATE = flights.pure_flight, flights.pure_gate
EBMS_SENDERS: dict[str, flights.Cores] = {
    "takes 2xx for an Acknowledgment": flights.Cores(
        flight=hears(FLIGHT, takes_2xx_for_an_acknowledgment)
    ),
    "spends no retry": flights.Cores(flight=keeps(FLIGHT, spends_no_retry)),
    "sends one copy more": flights.Cores(flight=sends_one_copy_more),
    "waits for ever": flights.Cores(flight=keeps(FLIGHT, on_event(on.AttemptClaimed, due=None))),
    "holds in silence": flights.Cores(flight=says(FLIGHT, without(do.OpenIncident))),
    "resumes and does not send": flights.Cores(
        flight=keeps(FLIGHT, on_event(on.OperatorResumed, state=FlightState.WAITING, due=None))
    ),
    "gives its place away": flights.Cores(flight=keeps(FLIGHT, gives_its_place_away)),
    "keeps its place": flights.Cores(flight=keeps(FLIGHT, keeps_its_place)),
    "reports a partner that answers": flights.Cores(flight=reports_a_partner_that_answers),
    "never probes": flights.Cores(gate=keeps(GATE, on_event(object, due=None))),
    "suspends in silence": flights.Cores(gate=says(GATE, without(do.OpenIncident))),
    "knows no window": flights.Cores(leave=in_window(lambda under_way, window: (0, window))),
    "has one place more": flights.Cores(
        leave=in_window(lambda under_way, window: (under_way, window + 1))
    ),
    "has one conversation at a time": flights.Cores(
        leave=in_window(lambda under_way, window: (under_way, 1))
    ),
    "does not wait for the reset": flights.Cores(
        may_start=lambda one: one.may_start or one.state == "confirming"
    ),
    "does not stop": flights.Cores(numbering=does_not_stop),
    "goes on after a loss": flights.Cores(numbering=goes_on_after_a_loss),
    "leaves a gap": flights.Cores(number=leaves_a_gap),
    "numbers all the same": flights.Cores(
        number=lambda one: Order(min(one.next_number, 1), one.resets), kinds=("ordered",)
    ),
}

# --- faulty Receivers of ebMS -----------------------------------------------------------------


def unordered(change: Callable[[Any], Any]) -> flights.Cores:
    """`change(effect)`, or nothing if that is None."""

    def faulty(event: arrival.MessageArrived, terms: arrival.Terms) -> Any:
        changed = (change(effect) for effect in arrival.unordered(event, terms))
        return tuple(effect for effect in changed if effect is not None)

    return flights.Cores(unordered=faulty)


def ordered(step: Step) -> flights.Cores:
    return flights.Cores(ordered=step, kinds=("ordered",))


def asks_the_order_before_the_id(*arguments: Any) -> Any:
    before, event, order, *rest = arguments
    is_next = conversation.position(before, order) is conversation.Position.NEXT
    return flights.pure_step(before, forgotten(event, is_next or order.resets), order, *rest)


def delivers_what_comes_early(before: Any, *rest: Any) -> Any:
    _, effects = flights.pure_step(before, *rest)
    return before, tuple(
        do.Accept(one.number, None) if isinstance(one, do.Hold) else one for one in effects
    )


def releases_backwards(event: Any, effect: Any) -> Any:
    return do.Release(effect.numbers[::-1]) if isinstance(effect, do.Release) else effect


def takes_old_numbers(*arguments: Any) -> Any:
    """An unknown message with a number below the next one."""
    before, event, order, *_ = arguments
    behind = conversation.position(before, order) is conversation.Position.BEHIND
    if behind and event.known is Known.NO:
        return before, (do.Accept(order.number, None), do.QueueAck())
    return flights.pure_step(*arguments)


ORDERED = flights.pure_step
EBMS_RECEIVERS: dict[str, flights.Cores] = {
    "forgets ids": flights.Cores(
        unordered=lambda event, terms: arrival.unordered(forgotten(event, True), terms)
    ),
    "acknowledges before it stores": unordered(
        lambda effect: None if isinstance(effect, do.Accept) else effect
    ),
    "answers a duplicate anew": unordered(
        lambda effect: do.QueueAck() if effect == do.RepeatAnswer() else effect
    ),
    "never answers a duplicate": unordered(
        lambda effect: None if effect == do.RepeatAnswer() else effect
    ),
    "asks the number before the id": ordered(asks_the_order_before_the_id),
    "delivers what comes early": ordered(delivers_what_comes_early),
    "releases nothing": ordered(says(ORDERED, without(do.Release))),
    "releases backwards": ordered(says(ORDERED, releases_backwards)),
    "holds without end": ordered(keeps(ORDERED, on_event(object, due=None))),
}
SELDOM: dict[str, tuple[Any, Any]] = {
    "claims a lost wake-up under its number": (LaneWorld, UNDER_ITS_NUMBER),
    "probes for ever": (FlightWorld, flights.Cores(gate=ignores(GATE, probes_for_ever))),
    "takes old numbers": (FlightWorld, ordered(takes_old_numbers)),
}

# --- the tests --------------------------------------------------------------------------------


def walks(world: Any, cores: Any, count: int) -> None:
    """As many walks. Raises the first Violation."""
    for seed in range(count):
        draw = random.Random(seed)
        Walk(world.drawn(draw, cores), draw).walk()


@pytest.mark.parametrize(
    ("world", "cores"), [(LaneWorld, lanes.Cores()), (FlightWorld, flights.Cores())]
)
def test_no_walk_without_a_fault_breaks_a_promise(world: Any, cores: Any) -> None:
    walks(world, cores, 200)


FAULTY: dict[str, tuple[Any, Any]] = {
    **{f"draft: {name}": (LaneWorld, lanes.Cores(sender=step)) for name, step in SENDERS.items()},
    **{
        f"draft: {name}": (LaneWorld, lanes.Cores(receiver=step))
        for name, step in RECEIVERS.items()
    },
    **{f"ebMS: {name}": (FlightWorld, cores) for name, cores in EBMS_SENDERS.items()},
    **{f"ebMS receiver: {name}": (FlightWorld, cores) for name, cores in EBMS_RECEIVERS.items()},
    **(SELDOM if EXAMPLES else {}),
}


@pytest.mark.parametrize(("world", "cores"), FAULTY.values(), ids=FAULTY)
def test_a_fault_is_caught(world: Any, cores: Any) -> None:
    caught = Violation if world is FlightWorld else (Violation, IllegalTransition)
    with pytest.raises(caught):
        walks(world, cores, WALKS)


# --- two workers and one copy (D18), by hand --------------------------------------------------


def promised_world(cores: lanes.Cores = lanes.Cores()) -> LaneWorld:  # noqa: B008  frozen
    """Of two messages the second is promised."""
    world = LaneWorld(cores)
    world.submit()
    world.submit()
    world.sweeps()
    world.sender.claims(world.now)
    world.post(0)
    world.attempt_ends(0, on.AttemptTransmitted)
    world.copy_meets(0, Fate.ARRIVES)
    world.signal_sent(0, recorded=True)
    world.signal_meets(0, Fate.ARRIVES)
    return world


def two_workers_send_one_message(cores: lanes.Cores) -> None:
    """The first dies after its POST; the second claims what it was promised, and sends nothing."""
    world = promised_world(cores)
    world.worker_is_named(0)
    world.post(0)
    world.sender.attempts.clear()
    world.passes(2)
    world.sender.claims(world.now)
    world.attempt_ends(0, on.AttemptFailed)
    world.check()


def test_two_copies_under_one_number_are_caught() -> None:
    """By chance it takes hundreds of walks to meet this fault."""
    two_workers_send_one_message(lanes.Cores())
    with pytest.raises(Violation, match="the rows deny what was sent: m002"):
        two_workers_send_one_message(UNDER_ITS_NUMBER)


def two_workers_are_named(*, shared: bool) -> None:
    """One has sent the copy, the other could not, and says so last."""
    world = promised_world()
    world.worker_is_named(0, again=True)
    world.worker_is_named(0)
    world.post(0)
    for attempt in world.sender.attempts:
        attempt.shared = shared
    world.attempt_ends(0, on.AttemptTransmitted)
    world.attempt_ends(0, on.AttemptFailed)
    world.check()


def test_row_that_denies_the_copy_of_another_worker_is_caught() -> None:
    two_workers_are_named(shared=True)
    with pytest.raises(Violation, match="the rows deny what was sent: m002"):
        two_workers_are_named(shared=False)
