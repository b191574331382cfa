"""Two MSHs of the pure cores of ebMS, a link that may do anything, crashes, operators.

At most once to the application, in order by conversation where that was agreed, never more copies
or more messages under way than agreed, and no state without an exit. MSH_EXAMPLES=5000 in the
environment looks further than the normal suite does.
"""

import os
from typing import ClassVar

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

from .world.exchange import Fate, World, stray
from .world.receiving import ReceivingCores
from .world.sending import SendingCores

EXAMPLES = int(os.environ.get("MSH_EXAMPLES", "100"))
STEPS = 60
ENDINGS = (on.AttemptTransmitted, on.AttemptFailed, on.AttemptRefused)
ANY = st.integers(0, 1_000_000)
FATES = st.sampled_from(Fate)


class Exchange(RuleBasedStateMachine):
    """Every rule is one thing that may happen at any moment, to either side or between them."""

    world: World
    kinds: ClassVar[tuple[str, ...]] = ("unordered", "expires", "ordered")

    def __init__(
        self,
        sending: SendingCores = SendingCores(),  # noqa: B008  frozen
        receiving: ReceivingCores = ReceivingCores(),  # noqa: B008  frozen
    ) -> None:
        super().__init__()
        self.cores = (sending, receiving)

    @initialize(
        window=st.integers(1, 3),
        kind=st.sampled_from(["unordered", "expires", "ordered"]),
        silence=st.sampled_from(["fail", "hold"]),
    )
    def begin(self, window: int, kind: str, silence: str) -> None:
        self.world = World(
            *self.cores,
            window=window,
            ordered=kind == "ordered" or kind not in self.kinds,
            time_to_live=40 if kind == "expires" and kind in self.kinds else 0,
            silence=silence,
        )

    # --- the Sender -----------------------------------------------------------------------

    @rule(conversations=st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
    def messages_are_submitted(self, conversations: list[str]) -> None:
        for name in conversations:
            self.world.sender.submits(name, self.world.now)

    @rule(seconds=st.sampled_from([0, 1, 3, 5, 10, 60, -10, -1_000, -100_000, 100_000]))
    def time_passes_and_the_sweeps_look(self, seconds: int) -> None:
        self.world.passes(seconds)
        self.world.sender.sweeps(self.world.now)
        self.world.receiver.sweeps(self.world.now)

    @rule()
    def a_worker_claims(self) -> None:
        self.world.sender.claims(self.world.now)

    @precondition(lambda self: self.world.sender.attempts)
    @rule(index=ANY)
    def a_worker_posts(self, index: int) -> None:
        self.world.post(index % len(self.world.sender.attempts))

    @precondition(lambda self: self.world.sender.attempts)
    @rule(index=ANY, ending=st.sampled_from(ENDINGS), reached=st.booleans())
    def an_attempt_ends(self, index: int, ending: type[on.AttemptEvent], reached: bool) -> None:
        self.world.attempt_ends(index % len(self.world.sender.attempts), ending, reached)

    @rule()
    def the_sender_crashes(self) -> None:
        self.world.sender.crashes()

    # --- the link -------------------------------------------------------------------------

    @precondition(lambda self: self.world.copies)
    @rule(index=ANY, fate=FATES)
    def a_copy_meets_its_fate(self, index: int, fate: Fate) -> None:
        self.world.copy_meets(index % len(self.world.copies), fate)

    @precondition(lambda self: self.world.receiver.pending)
    @rule(index=ANY, recorded=st.booleans())
    def a_signal_is_sent(self, index: int, recorded: bool) -> None:
        """Not recorded: the Receiver crashes after it was sent."""
        self.world.signal_sent(index % len(self.world.receiver.pending), recorded=recorded)

    @precondition(lambda self: self.world.signals)
    @rule(index=ANY, fate=FATES)
    def a_signal_meets_its_fate(self, index: int, fate: Fate) -> None:
        self.world.signal_meets(index % len(self.world.signals), fate)

    @precondition(lambda self: self.world.first_copies)
    @rule(index=ANY, warning=st.booleans())
    def a_stray_error_is_on_its_way(self, index: int, warning: bool) -> None:
        sent = list(self.world.first_copies)
        self.world.signals.append(stray(sent[index % len(sent)], warning=warning))

    @rule(
        rounds=st.integers(1, 4),
        copies=FATES,
        signals=FATES,
        ending=st.sampled_from(ENDINGS[:2]),
    )
    def people_do_their_work_for_a_while(
        self, rounds: int, copies: Fate, signals: Fate, ending: type[on.AttemptEvent]
    ) -> None:
        for _ in range(rounds):
            self.world.round_of_work(copies, signals, ending)

    # --- the Receiver and operators -------------------------------------------------------

    @rule(full=st.booleans())
    def the_receiver_fares(self, full: bool) -> None:
        self.world.receiver.full = full

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


def test_at_most_once_in_order_within_the_window_and_never_stuck() -> None:
    """EB-080, EB-085, EB-087, EB-091, EB-110 to EB-112, EB-123, EB-124, EB-127, EB-132, EB-134."""
    search = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Exchange, settings=search)
