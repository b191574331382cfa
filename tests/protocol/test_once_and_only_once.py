"""Two pure cores, a link that may do anything, crashes, operators: once, only once, in order.

MSH_EXAMPLES=5000 in the environment looks further than the normal suite does.
"""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from msh.protocol import events as on
from msh.protocol import receiver
from msh.protocol.kinds import OnUnexpectedFirst
from msh.protocol.vocabulary import ErrorCode

from .world.exchange import Fate, World
from .world.hosts import ReceiverStep, SenderStep, Signal, pure_sender

EXAMPLES = int(os.environ.get("MSH_EXAMPLES", "150"))
STEPS = 80
ENDINGS = (on.AttemptTransmitted, on.AttemptFailed, on.AttemptRefused)


ANY = st.integers(0, 1_000_000)
FATES = st.sampled_from(Fate)


class Exchange(RuleBasedStateMachine):
    """Every rule is one thing that may happen at any moment, to either side or between them."""

    world: World

    def __init__(
        self, sender_step: SenderStep = pure_sender, receiver_step: ReceiverStep = receiver.step
    ) -> None:
        super().__init__()
        self.steps = (sender_step, receiver_step)

    @initialize(
        first=st.sampled_from([1, 999_999_997, 999_999_999]),
        setting=st.sampled_from([OnUnexpectedFirst.ACCEPT, OnUnexpectedFirst.HOLD]),
        resumes=st.booleans(),
    )
    def begin(self, first: int, setting: OnUnexpectedFirst, resumes: bool) -> None:
        self.world = World(first, setting, *self.steps)
        self.world.sender.resumes = resumes

    # --- the Sender -----------------------------------------------------------------------

    @rule(count=st.integers(1, 3))
    def messages_are_submitted(self, count: int) -> None:
        for _ in range(count):
            self.world.submit()

    @rule(seconds=st.sampled_from([0, 1, 3, 5, 10, 60, -10, -1_000, -100_000, 100_000]))
    def time_passes_and_the_sweep_looks(self, seconds: int) -> None:
        self.world.passes(seconds)
        self.world.sender.sweeps(self.world.now)

    @rule()
    def a_worker_claims(self) -> None:
        self.world.sender.claims(self.world.now)

    @precondition(lambda self: self.world.sender.attempts)
    @rule(index=ANY)
    def a_worker_posts(self, index: int) -> None:
        self.world.post(index % len(self.world.sender.attempts))

    @precondition(lambda self: self.world.sender.attempts)
    @rule(index=ANY, ending=st.sampled_from(ENDINGS))
    def an_attempt_ends(self, index: int, ending: type[on.AttemptEvent]) -> None:
        self.world.attempt_ends(index % len(self.world.sender.attempts), ending)

    @precondition(lambda self: self.world.sender.promises)
    @rule(index=ANY)
    def a_wake_up_names_a_promised_copy(self, index: int) -> None:
        self.world.worker_is_named(index % len(self.world.sender.promises))

    @rule()
    def the_wake_ups_are_lost(self) -> None:
        self.world.sender.loses_wake_ups()

    @precondition(lambda self: self.world.sender.attempts)
    @rule(index=ANY)
    def a_worker_writes_that_it_sends(self, index: int) -> None:
        self.world.worker_writes(index % len(self.world.sender.attempts))

    @precondition(lambda self: self.world.is_silent())
    @rule()
    def a_probe_is_due(self) -> None:
        self.world.sender.happens(on.ProbeDue(), self.world.now)

    @rule()
    def the_sender_crashes(self) -> None:
        self.world.sender.crashes()

    # --- the link -------------------------------------------------------------------------

    @precondition(lambda self: self.world.copies)
    @rule(index=ANY, fate=FATES)
    def a_copy_meets_its_fate(self, index: int, fate: Fate) -> None:
        self.world.copy_meets(index % len(self.world.copies), fate)

    @precondition(lambda self: self.world.receiver.pending)
    @rule(index=ANY, transmitted=st.booleans())
    def a_signal_is_sent(self, index: int, transmitted: bool) -> None:
        self.world.signal_sent(index % len(self.world.receiver.pending), transmitted=transmitted)

    @precondition(lambda self: self.world.signals)
    @rule(index=ANY, fate=FATES)
    def a_signal_meets_its_fate(self, index: int, fate: Fate) -> None:
        self.world.signal_meets(index % len(self.world.signals), fate)

    @precondition(lambda self: self.world.sender.messages)
    @rule(index=ANY, code=st.sampled_from([None, *ErrorCode]))
    def a_stray_signal_is_on_its_way(self, index: int, code: ErrorCode | None) -> None:
        """An Error for any message at all; an Ack only of what is not one of ours."""
        messages = list(self.world.sender.messages)
        message_id = messages[index % len(messages)] if code else "unknown"
        self.world.signals.append(Signal(message_id, code))

    @rule(rounds=st.integers(1, 4), copies=FATES, signals=FATES)
    def people_do_their_work_for_a_while(self, rounds: int, copies: Fate, signals: Fate) -> None:
        for _ in range(rounds):
            self.world.round_of_work(copies, signals)

    # --- the Receiver ---------------------------------------------------------------------

    @rule(full=st.booleans(), withholds=st.booleans())
    def the_receiver_fares(self, full: bool, withholds: bool) -> None:
        self.world.receiver.full = full
        self.world.receiver.releases()
        self.world.receiver.withholds = withholds

    # --- operators ------------------------------------------------------------------------

    @rule(pick=ANY)
    def an_operator_acts(self, pick: int) -> None:
        acts = self.world.legal_acts()
        acts[pick % len(acts)]()

    # --- the promises ---------------------------------------------------------------------

    @invariant()
    def every_promise_holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.heals()


@pytest.mark.requirement("000-002", "000-008", "000-017", "000-027", "000-037", "000-070")
def test_never_lost_duplicated_out_of_order_overlapping_altered_or_stuck() -> None:
    search = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Exchange, settings=search)
