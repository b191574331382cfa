"""`make mutants`: change the product in one place at a time, and check that a test fails.

A mutant is an entry of a .toml file in this folder: `file`, the text `find`, which occurs in it
exactly once, the text `replace`, and the `tests` that must fail. Each is applied in a copy of
the tree. Exits with 1 if one survives, or if its text is no longer in the file.

    python -m tests.mutants                 all of them
    python -m tests.mutants lock epoch      those whose name contains one of these words
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import urlsplit

import psycopg

from msh.standalone.embedded import EmbeddedServers
from tests.services import REDIS_EACH

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
LIMIT = 240  # seconds for the tests of one mutant
MIGRATES = "tests/delivery/test_prune.py::test_beat_prunes_daily"
"""A test that needs a database and leaves it as it was."""
TEMPLATE = "migrated"
PASSED, FAILED, INVALID, CAUGHT = "passed", "failed", "INVALID", "caught"
PYTEST = (
    *("-m", "pytest", "-q", "-x", "--no-header", "--reuse-db"),
    *("-p", "no:cacheprovider", "-p", "no:schemathesis"),  # its import takes longer than most tests
)


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    file: str
    find: str
    replace: str
    tests: str

    def apply(self, tree: Path) -> str:
        """Change the file in `tree`; return its text before. Raises ValueError if `find` does
        not occur exactly once."""
        path = tree / self.file
        text = path.read_text()
        if (count := text.count(self.find)) != 1:
            raise ValueError(f"`find` occurs {count} times in {self.file}")
        _write(path, text.replace(self.find, self.replace))
        return text


def _write(path: Path, text: str) -> None:
    """Its bytecode goes too: Python would keep that of a file of the same size and second."""
    path.write_text(text)
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


class Tree:
    """A copy of the working tree, with a database of its own that is new for each run."""

    def __init__(self, folder: Path, number: int, servers: EmbeddedServers) -> None:
        self.folder = _copy_tree(folder / str(number))
        self._database = servers.settings["DATABASE_URL"]
        self._name = f"mutants_{number}"
        self.environment = {
            **os.environ,
            "DATABASE_URL": _with_path(self._database, self._name),
            "REDIS_URL": urlsplit(servers.settings["REDIS_URL"])
            ._replace(path=f"/{number * REDIS_EACH}")
            .geturl(),
        }

    def migrate(self) -> None:
        """Make the database that the others are copies of."""
        verdict, detail = self.run_tests(("--create-db", MIGRATES))
        if verdict != PASSED:
            raise RuntimeError(detail)
        self._administer(f"ALTER DATABASE test_{self._name} RENAME TO {TEMPLATE}")

    def renew(self) -> None:
        self._administer(f"DROP DATABASE IF EXISTS test_{self._name} WITH (FORCE)")
        self._administer(f"CREATE DATABASE test_{self._name} TEMPLATE {TEMPLATE}")

    def _administer(self, statement: str) -> None:
        with psycopg.connect(self._database, autocommit=True) as connection:
            connection.execute(statement)

    def run_tests(self, arguments: Iterable[str]) -> tuple[str, str]:
        """PASSED, FAILED or INVALID; and the first test that failed, or the last lines."""
        with subprocess.Popen(
            (sys.executable, *PYTEST, *arguments),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return FAILED, f"not within {LIMIT} seconds"
        lines = output.splitlines()
        named = [line for line in lines if line.startswith(("FAILED ", "ERROR ")) and "::" in line]
        if named:
            return FAILED, named[0].split(" - ")[0].partition(" ")[2]
        return INVALID if process.returncode else PASSED, "\n".join(lines[-5:])


def _with_path(url: str, path: str) -> str:
    return urlsplit(url)._replace(path=f"/{path}").geturl()


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    verdict: str
    detail: str = ""


def load(words: Sequence[str]) -> list[Mutant]:
    """Every mutant whose name contains one of the words, or all."""
    found = [
        Mutant(**entry)
        for path in sorted(HERE.glob("*.toml"))
        for entry in tomllib.loads(path.read_text())["mutant"]
    ]
    return [one for one in found if not words or any(word in one.name for word in words)]


def _copy_tree(target: Path) -> Path:
    """The tracked and the new files as they are now, and a link to the same .venv."""
    listed = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    if not (target / ".venv").exists():
        (target / ".venv").symlink_to(ROOT / ".venv")
    return target


def judge(mutant: Mutant, tree: Tree) -> Result:
    try:
        before = mutant.apply(tree.folder)
    except ValueError as problem:
        return Result(mutant.name, INVALID, str(problem))
    tree.renew()
    tables_differ = ("--create-db",) if "/migrations/" in mutant.file else ()
    try:
        verdict, detail = tree.run_tests((*tables_differ, *mutant.tests.split()))
    finally:
        _write(tree.folder / mutant.file, before)
    if verdict == PASSED:
        return Result(mutant.name, "SURVIVED", mutant.tests)
    return Result(mutant.name, CAUGHT if verdict == FAILED else verdict, detail)


def judge_all(mutants: Sequence[Mutant], jobs: int, servers: EmbeddedServers) -> Iterator[Result]:
    """Each of them, once the tests have passed without any. Raises RuntimeError if they do not."""
    free: SimpleQueue[Tree] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="msh-mutants-") as folder:
        trees = [Tree(Path(folder), number, servers) for number in range(jobs)]
        trees[0].migrate()
        trees[0].renew()
        selected = sorted({test for one in mutants for test in one.tests.split()})
        verdict, detail = trees[0].run_tests(selected)
        if verdict != PASSED:
            raise RuntimeError(f"The tests fail without any mutant: {detail}")
        for tree in trees:
            free.put(tree)

        def judge_in_a_free_tree(mutant: Mutant) -> Result:
            tree = free.get()
            try:
                return judge(mutant, tree)
            finally:
                free.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(judge_in_a_free_tree, mutants)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("words", nargs="*", help="only mutants whose name contains one of these")
    parser.add_argument("-j", "--jobs", type=int, default=min(8, os.cpu_count() or 1))
    options = parser.parse_args()
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="msh-mutants-") as folder,
        EmbeddedServers(
            Path(folder), given={}, fsync=False, redis_databases=options.jobs * REDIS_EACH
        ) as servers,
    ):
        for result in judge_all(load(options.words), options.jobs, servers):
            print(f"{result.verdict:8} {result.name}: {result.detail}", flush=True)  # noqa: T201
            results.append(result)
    bad = [result for result in results if result.verdict != CAUGHT]
    print(f"{len(results)} mutants, {len(results) - len(bad)} caught")  # noqa: T201
    return 1 if bad or not results else 0


if __name__ == "__main__":
    sys.exit(main())
