"""A walk through the exchange of the draft by chance."""

from collections.abc import Callable

from msh.protocol import events as on
from msh.protocol import receiver
from msh.protocol.kinds import OnUnexpectedFirst
from msh.protocol.vocabulary import ErrorCode
from tests.protocol.walk import Walk

from .exchange import Fate, World
from .hosts import ReceiverStep, SenderStep, Signal, pure_sender

ENDINGS = (on.AttemptTransmitted, on.AttemptFailed, on.AttemptRefused)
FATES = tuple(Fate)
NAMED_AGAIN = 0.1
"""How often the name of a promise comes to one more worker."""
SECONDS = (0, 1, 3, 5, 10, 60, -10, -1_000, -100_000, 100_000)


class DraftWalk(Walk):
    steps = 80

    def __init__(
        self,
        seed: int,
        sender_step: SenderStep = pure_sender,
        receiver_step: ReceiverStep = receiver.step,
    ) -> None:
        super().__init__(seed)
        first = self.draw.choice((1, 999_999_997, 999_999_999))
        setting = self.draw.choice((OnUnexpectedFirst.ACCEPT, OnUnexpectedFirst.HOLD))
        self.world: World = World(first, setting, sender_step, receiver_step)
        self.world.sender.resumes = self.coin()
        self.fates = self.draw.choice((FATES, (Fate.ARRIVES,) * 8 + FATES))

    def possible(self) -> list[Callable[[], None]]:
        world = self.world
        possible = [self._submit, self._sweep, self._claim, world.sender.crashes]
        possible += [self._work, self._act, self._fare]
        possible += [self._post, self._end, self._begin] * bool(world.sender.attempts)
        possible += [self._name, world.sender.loses_wake_ups] * bool(world.sender.promises)
        possible += [self._probe] * world.is_silent()
        possible += [self._arrive] * bool(world.copies)
        possible += [self._answer] * bool(world.receiver.pending)
        possible += [self._arrive_back] * bool(world.signals)
        possible += [self._disturb] * bool(world.sender.messages)
        return possible

    def _submit(self) -> None:
        for _ in range(self.draw.randint(1, 3)):
            self.world.submit()

    def _sweep(self) -> None:
        self.world.passes(self.draw.choice(SECONDS))
        self.world.sender.sweeps(self.world.now)

    def _claim(self) -> None:
        self.world.sender.claims(self.world.now)

    def _work(self) -> None:
        copies, signals = self.draw.choice(self.fates), self.draw.choice(self.fates)
        for _ in range(self.draw.randint(1, 4)):
            self.world.round_of_work(copies, signals)

    def _post(self) -> None:
        self.world.post(self.index(self.world.sender.attempts))

    def _end(self) -> None:
        self.world.attempt_ends(self.index(self.world.sender.attempts), self.draw.choice(ENDINGS))

    def _begin(self) -> None:
        self.world.worker_writes(self.index(self.world.sender.attempts))

    def _name(self) -> None:
        again = self.draw.random() < NAMED_AGAIN
        self.world.worker_is_named(self.index(self.world.sender.promises), again=again)

    def _probe(self) -> None:
        self.world.sender.happens(on.ProbeDue(), self.world.now)

    def _arrive(self) -> None:
        self.world.copy_meets(self.index(self.world.copies), self.draw.choice(self.fates))

    def _answer(self) -> None:
        self.world.signal_sent(self.index(self.world.receiver.pending), transmitted=self.coin())

    def _arrive_back(self) -> None:
        self.world.signal_meets(self.index(self.world.signals), self.draw.choice(self.fates))

    def _disturb(self) -> None:
        """An Error for any message at all; an Ack only of what is not one of ours."""
        code = self.draw.choice((None, *ErrorCode))
        message_id = self.draw.choice(list(self.world.sender.messages)) if code else "unknown"
        self.world.signals.append(Signal(message_id, code))

    def _act(self) -> None:
        self.draw.choice(self.world.legal_acts())()

    def _fare(self) -> None:
        self.world.receiver.full = self.coin()
        self.world.receiver.releases()
        self.world.receiver.withholds = self.coin()
