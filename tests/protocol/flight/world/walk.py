"""Walks through the exchange by chance alone: one seed is one walk, the same on every machine.

Hypothesis looks for the smallest failing example, and draws differently where other modules are
loaded. To see that a fault is met at all, a walk is faster, and certain.
"""

import random
from collections.abc import Callable, Sequence

from msh.protocol import events as on

from .exchange import Fate, World, stray
from .receiving import ReceivingCores
from .sending import SendingCores

STEPS = 60
ENDINGS = (on.AttemptTransmitted, on.AttemptFailed, on.AttemptRefused)
FATES = tuple(Fate)
SECONDS = (0, 1, 3, 5, 10, 60, -10, -1_000, -100_000, 100_000)
Kinds = tuple[str, ...]
KINDS: Kinds = ("unordered", "expires", "ordered")


class Walk:
    def __init__(self, seed: int, cores: tuple[SendingCores, ReceivingCores], kinds: Kinds) -> None:
        self.draw = random.Random(seed)
        kind = self.draw.choice(kinds)
        self.world = World(
            *cores,
            window=self.draw.randint(1, 3),
            ordered=kind == "ordered",
            time_to_live=40 if kind == "expires" else 0,
            silence=self.draw.choice(("fail", "hold")),
        )
        self.fates = self.draw.choice((FATES, (Fate.ARRIVES,) * 8 + FATES))

    def step(self) -> None:
        self.draw.choice(self._possible())()
        self.world.check()

    def _possible(self) -> list[Callable[[], None]]:
        """What may happen next, each once."""
        world = self.world
        possible = [self._submit, self._sweep, self._claim, world.sender.crashes]
        possible += [self._work, self._act, self._fill]
        possible += [self._post, self._end] * bool(world.sender.attempts)
        possible += [self._arrive] * bool(world.copies)
        possible += [self._answer] * bool(world.receiver.owed)
        possible += [self._arrive_back] * bool(world.signals)
        possible += [self._disturb] * bool(world.first_copies)
        return possible

    def _index(self, things: Sequence[object]) -> int:
        return self.draw.randrange(len(things))

    def _coin(self) -> bool:
        return self.draw.random() < 0.5

    def _submit(self) -> None:
        for _ in range(self.draw.randint(1, 4)):
            self.world.sender.submits(self.draw.choice("abc"), self.world.now)

    def _sweep(self) -> None:
        self.world.passes(self.draw.choice(SECONDS))
        self.world.sender.sweeps(self.world.now)
        self.world.receiver.sweeps(self.world.now)

    def _claim(self) -> None:
        self.world.sender.claims(self.world.now)

    def _work(self) -> None:
        copies, signals = self.draw.choice(self.fates), self.draw.choice(self.fates)
        ending = self.draw.choice(ENDINGS[:2])
        for _ in range(self.draw.randint(1, 4)):
            self.world.round_of_work(copies, signals, ending)

    def _post(self) -> None:
        self.world.post(self._index(self.world.sender.attempts))

    def _end(self) -> None:
        index = self._index(self.world.sender.attempts)
        self.world.attempt_ends(index, self.draw.choice(ENDINGS), reached=self._coin())

    def _arrive(self) -> None:
        self.world.copy_meets(self._index(self.world.copies), self.draw.choice(self.fates))

    def _answer(self) -> None:
        self.world.signal_sent(self._index(self.world.receiver.owed), recorded=self._coin())

    def _arrive_back(self) -> None:
        self.world.signal_meets(self._index(self.world.signals), self.draw.choice(self.fates))

    def _disturb(self) -> None:
        message_id = self.draw.choice(list(self.world.first_copies))
        self.world.signals.append(stray(message_id, warning=self._coin()))

    def _act(self) -> None:
        self.draw.choice(self.world.legal_acts())()

    def _fill(self) -> None:
        self.world.receiver.full = self._coin()


def walks(
    count: int,
    sending: SendingCores = SendingCores(),  # noqa: B008  frozen
    receiving: ReceivingCores = ReceivingCores(),  # noqa: B008  frozen
    kinds: Kinds = KINDS,
) -> None:
    """STEPS things happen by chance, then everything goes well, `count` times. Raises Violation."""
    for seed in range(count):
        one = Walk(seed, (sending, receiving), kinds)
        for _ in range(STEPS):
            one.step()
        one.world.heals()
