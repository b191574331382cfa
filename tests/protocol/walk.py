"""Walks through a simulated exchange by chance alone: one seed is one walk, on every machine.

Hypothesis looks for the smallest failing example, and draws differently where other modules are
loaded. To see that a fault is met at all, a walk is faster, and certain.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar


class Walk(ABC):
    """`world` is one of the simulated exchanges."""

    steps: ClassVar[int]
    world: Any

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    @abstractmethod
    def possible(self) -> list[Callable[[], None]]:
        """What may happen next, each once."""

    def walk(self) -> None:
        """`steps` things happen by chance, then everything goes well. Raises Violation."""
        for _ in range(self.steps):
            self.draw.choice(self.possible())()
            self.world.check()
        self.world.heals()

    def index(self, things: Sequence[object]) -> int:
        return self.draw.randrange(len(things))

    def coin(self) -> bool:
        return self.draw.random() < 0.5


def walks(make: Callable[[int], Walk], count: int) -> None:
    """As many walks. Raises the first Violation."""
    for seed in range(count):
        make(seed).walk()
