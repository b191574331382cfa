"""The processes that submit: a few for each MSH, with the producers of many pairs in each."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .machines import Machine, run_python
from .pairs import Pair
from .producer import Plan, write_plans

SHARING = 2
"""Processes that submit to one MSH."""


@dataclass(frozen=True, slots=True)
class Submitting:
    """`folder`: of plans and records. `longest_pause`: seconds between two submits of a pair."""

    folder: Path
    machines: Sequence[Machine]
    pairs: Sequence[Pair]
    seed: int
    longest_pause: float

    @property
    def records(self) -> list[Path]:
        return [self._record(pair) for pair in self.pairs]

    def start(self, files: Mapping[str, list[str]]) -> list[asyncio.Task[str]]:
        """Submit the files of each pair, by its name. A task that is cancelled ends its process
        between two submits."""
        return [
            asyncio.create_task(self._produce(f"{sender}-{number}", sender, pairs, files))
            for number, (sender, pairs) in enumerate(share_out(self.pairs, SHARING), 1)
        ]

    async def _produce(
        self, name: str, sender: str, pairs: Sequence[Pair], files: Mapping[str, list[str]]
    ) -> str:
        plans = [
            Plan(
                pair=pair.name,
                tpa_id=pair.tpa_id,
                record=str(self._record(pair)),
                files=files[pair.name],
                seed=self.seed,
                longest_pause=self.longest_pause,
                conversations=pair.conversations,
            )
            for pair in pairs
        ]
        file = self.folder / f"{name}.json"
        write_plans(plans, file)
        for pair in pairs:
            self._record(pair).touch()
        machine = next(one for one in self.machines if one.name == sender)
        return await run_python(["-m", "demo.producer", str(file)], machine.environment)

    def _record(self, pair: Pair) -> Path:
        return self.folder / f"{pair.name}.record"


def share_out(pairs: Sequence[Pair], processes: int) -> list[tuple[str, list[Pair]]]:
    """The pairs of each process that submits, with its MSH: at most `processes` for each MSH."""
    shares: dict[tuple[str, int], list[Pair]] = {}
    of_sender: Counter[str] = Counter()
    for pair in pairs:
        shares.setdefault((pair.sender, of_sender[pair.sender] % processes), []).append(pair)
        of_sender[pair.sender] += 1
    return [(sender, share) for (sender, _), share in shares.items()]
