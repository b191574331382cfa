"""The mutants that are kept by hand: each breaks a rule that no property test can see."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from .trees import Mutant

KEPT = ("locks", "guards", "fences", "commits")
HERE = Path(__file__).parent


def load(words: Sequence[str] = ()) -> list[Mutant]:
    """Return every entry whose rule contains one of the words, or all."""
    found = [
        Mutant(**entry)
        for name in KEPT
        for entry in tomllib.loads((HERE / f"{name}.toml").read_text())["mutant"]
    ]
    return [one for one in found if not words or any(word in one.rule for word in words)]
