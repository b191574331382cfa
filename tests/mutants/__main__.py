"""`make mutants`: change the product in one place at a time, and check that a test fails.

Kept mutants are entries of locks.toml, guards.toml, fences.toml and commits.toml: the `rule` that
is broken, `file`, the text `find`, which occurs in it exactly once, the text `replace`, and the
`tests` that must fail. All others are generated: of the decisions in msh/protocol (decisions.py),
and of the SQL (sql.py). A generated mutant that no test catches is an entry of survivors.toml, with
the reason why it stays, or a defect of the tests.

    python -m tests.mutants                             all of them; takes hours
    python -m tests.mutants kept                        the kept ones
    python -m tests.mutants lock promises               kept ones whose rule has one of these words
    python -m tests.mutants msh/protocol/lane.py        those that are generated of a file
    python -m tests.mutants msh/store/sending --list    or of a folder, without trying them

Each is applied in a copy of the tree. Exits with 1 if one survives without a reason, or if the text
of a kept one is no longer in its file.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msh.standalone.embedded import EmbeddedServers
from tests.services import REDIS_EACH

from . import generated, kept
from .trees import CAUGHT, INVALID, SURVIVED, Mutant, Result, judge_all


def choose(words: Sequence[str]) -> list[Mutant]:
    """The mutants that are named by words of their rules, and by files and folders of the product.
    Raises ValueError if none is generated of a file or folder."""
    if not words:
        return [*kept.load(), *generated.load(generated.SOURCES)]
    paths = [word for word in words if "/" in word]
    rules = [word for word in words if "/" not in word]
    named = kept.load(() if "kept" in rules else rules) if rules else []
    return [*named, *generated.load(paths)]


def read(result: Result, reasons: generated.Reasons) -> tuple[str, str]:
    """The verdict and the words for it. A generated mutant need not run, and may have a reason."""
    mutant = result.mutant
    if isinstance(mutant, generated.Generated):
        if result.verdict == INVALID:
            return CAUGHT, "it does not run"
        why = reasons.get(mutant.change)
        if result.verdict == SURVIVED and why is not None:
            return generated.STAYS, why
        if why is not None:
            return result.verdict, f"{result.detail}; survivors.toml names it in vain"
        if result.verdict == SURVIVED:
            return SURVIVED, f"{len(mutant.tests.split())} files or folders of tests pass"
    return result.verdict, result.detail


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("words", nargs="*", help="words of rules, files or folders of the product")
    parser.add_argument("-j", "--jobs", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--list", action="store_true", help="list them without trying any")
    options = parser.parse_args()
    try:
        mutants = choose(options.words)
    except ValueError as problem:
        parser.error(str(problem))
    if options.list:
        print("\n".join(one.rule for one in mutants), f"{len(mutants)} mutants", sep="\n")  # noqa: T201
        return 0
    verdicts = []
    reasons = generated.load_reasons()
    with (
        tempfile.TemporaryDirectory(prefix="msh-mutants-") as folder,
        EmbeddedServers(
            Path(folder), given={}, fsync=False, redis_databases=options.jobs * REDIS_EACH
        ) as servers,
    ):
        for result in judge_all(mutants, options.jobs, servers):
            verdict, detail = read(result, reasons)
            print(f"{verdict:8} {result.mutant.rule}: {detail}", flush=True)  # noqa: T201
            verdicts.append(verdict)
    good = [verdicts.count(one) for one in (CAUGHT, generated.STAYS)]
    print(f"{len(verdicts)} mutants, {good[0]} caught, {good[1]} stay for a reason")  # noqa: T201
    return 0 if verdicts and sum(good) == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
