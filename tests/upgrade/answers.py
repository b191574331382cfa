"""How long answers took, and in which part of an upgrade they were asked for."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PARTS = ("before", "migrating", "restarting", "after")


@dataclass(frozen=True, slots=True)
class Answer:
    """`at`: when it was asked for, a time of the clock. `seconds`: until it was there."""

    kind: str
    at: float
    seconds: float


def table(answers: Iterable[Answer], begins: Mapping[str, float]) -> dict[str, Any]:
    """For each kind, and each part that has begun: how many, and seconds."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in answers:
        # An answer that is still awaited when a part begins is counted for that part.
        part = max(
            (name for name, at in begins.items() if at <= one.at + one.seconds),
            key=PARTS.index,
            default=PARTS[0],
        )
        found[one.kind][part].append(one.seconds)
    return {
        kind: {part: _summary(parts[part]) for part in PARTS if part in parts}
        for kind, parts in sorted(found.items())
    }


def _summary(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "answers": len(ordered),
        "median": round(statistics.median(ordered), 4),
        "p99": round(ordered[int(0.99 * (len(ordered) - 1))], 4),
        "slowest": round(ordered[-1], 4),
    }
