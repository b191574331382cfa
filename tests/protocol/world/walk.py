"""Things happen to a World, as they are drawn: by a seed, or by Hypothesis.

Hypothesis looks for the smallest failing example. To see that a fault is met at all, walks by seeds
are faster, and certain: one seed is one walk, on every machine.
"""

import random
from collections.abc import Sequence
from typing import Any

from msh.protocol import events as on

from .link import Act, Fate, World

ENDINGS = (on.AttemptTransmitted, on.AttemptFailed, on.AttemptRefused)
FATES = tuple(Fate)
SECONDS = (0, 1, 3, 5, 10, 60, -10, -1_000, -100_000, 100_000)


class Walk:
    """Every method is one thing that may happen at any moment, to either side or between them."""

    def __init__(self, world: World, draw: random.Random) -> None:
        self.world, self.draw = world, draw
        self.fates: Sequence[Fate] = draw.choice((FATES, (Fate.ARRIVES,) * 8 + FATES))

    def walk(self) -> None:
        """Things happen by chance, then everything goes well. Raises Violation."""
        for _ in range(self.world.steps):
            self.draw.choice(self.possible())()
            self.world.check()
        self.world.heals()

    def possible(self) -> list[Act]:
        """What may happen next, each once."""
        world = self.world
        possible: list[Act] = [self.submit, self.sweep, self.claim, self.crash]
        possible += [self.work, self.act, self.fill]
        possible += [self.post, self.end] * bool(world.sender.attempts)
        possible += [self.arrive] * bool(world.copies)
        possible += [self.answer] * bool(world.receiver.pending)
        possible += [self.arrive_back] * bool(world.signals)
        possible += [self.disturb] * bool(world.message_ids)
        return possible + world.happenings(self.draw)

    def submit(self) -> None:
        for _ in range(self.draw.randint(1, 3)):
            self.world.submit(self.draw.choice("abc"))

    def sweep(self) -> None:
        self.world.passes(self.draw.choice(SECONDS))
        self.world.sweeps()

    def claim(self) -> None:
        self.world.sender.claims(self.world.now)

    def crash(self) -> None:
        self.world.sender.attempts.clear()

    def work(self) -> None:
        copies, signals = self.draw.choice(self.fates), self.draw.choice(self.fates)
        ending = self.draw.choice(ENDINGS[:2])
        for _ in range(self.draw.randint(1, 4)):
            self.world.round_of_work(copies, signals, ending)

    def post(self) -> None:
        self.world.post(self._index(self.world.sender.attempts))

    def end(self) -> None:
        index = self._index(self.world.sender.attempts)
        self.world.attempt_ends(index, self.draw.choice(ENDINGS), reached=self._coin())

    def arrive(self) -> None:
        self.world.copy_meets(self._index(self.world.copies), self.draw.choice(self.fates))

    def answer(self) -> None:
        """Not recorded: the Receiver crashes after it was sent."""
        self.world.signal_sent(self._index(self.world.receiver.pending), recorded=self._coin())

    def arrive_back(self) -> None:
        self.world.signal_meets(self._index(self.world.signals), self.draw.choice(self.fates))

    def disturb(self) -> None:
        stray = self.world.stray(self.draw)
        self.world.signals += [stray] if stray else []

    def act(self) -> None:
        acts = self.world.legal_acts()
        if acts:
            acts[self._index(acts)]()

    def fill(self) -> None:
        self.world.receiver.full = self._coin()

    def _index(self, things: Sequence[Any]) -> int:
        return self.draw.randrange(len(things))

    def _coin(self) -> bool:
        return self.draw.random() < 0.5
