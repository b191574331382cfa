"""Copies of the working tree with a database each, in which mutants are tried side by side."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
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

ROOT = Path(__file__).parent.parent.parent
LIMIT = 240
"""Seconds of computing for the tests of one mutant. One that makes a loop endless is caught by it,
on a busy machine as on a quiet one."""
LONGEST = 5 * LIMIT
"""Seconds of the clock: a statement that never ends computes elsewhere."""
MIGRATES = "tests/delivery/test_prune.py::test_a_dry_run_removes_nothing"
"""A test that needs a database and leaves it as it was."""
TEMPLATE = "migrated"
WITHOUT_DATABASE = "tests/protocol"
PASSED, FAILED, INVALID = "passed", "failed", "INVALID"
CAUGHT, SURVIVED = "caught", "SURVIVED"
PYTEST = ("-m", "pytest", "-q", "-x", "--no-header", "--reuse-db", "-p", "no:cacheprovider")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place. `tests`, separated by blanks, have to fail; the first that fails ends
    the run, so those that are likely to fail come first."""

    rule: str
    file: str
    find: str
    replace: str
    tests: str

    @property
    def needs_database(self) -> bool:
        return not self.tests.startswith(WITHOUT_DATABASE)

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

    def run_tests(self, arguments: Iterable[str], limited: bool = True) -> tuple[str, str]:
        """PASSED, FAILED or INVALID; and the first test that failed, or the last lines."""
        limit = f"ulimit -t {LIMIT}; " if limited else ""
        with subprocess.Popen(
            ("sh", "-c", f'{limit}exec "$@"', "sh", sys.executable, *PYTEST, *arguments),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=LONGEST if limited else None)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return FAILED, f"not within {LONGEST} seconds"
        if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return FAILED, f"not within {LIMIT} seconds of computing"
        lines = output.splitlines()
        named = [line for line in lines if line.startswith(("FAILED ", "ERROR ")) and "::" in line]
        if named:
            return FAILED, named[0].split(" - ")[0].partition(" ")[2]
        return INVALID if process.returncode else PASSED, "\n".join(lines[-5:])


def _with_path(url: str, path: str) -> str:
    return urlsplit(url)._replace(path=f"/{path}").geturl()


@dataclass(frozen=True, slots=True)
class Result:
    mutant: Mutant
    verdict: str
    detail: str = ""


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
        return Result(mutant, INVALID, str(problem))
    if mutant.needs_database:
        tree.renew()
    tables_differ = ("--create-db",) if "/migrations/" in mutant.file else ()
    try:
        verdict, detail = tree.run_tests((*tables_differ, *mutant.tests.split()))
    finally:
        _write(tree.folder / mutant.file, before)
    if verdict == PASSED:
        return Result(mutant, SURVIVED, mutant.tests)
    return Result(mutant, CAUGHT if verdict == FAILED else verdict, detail)


def judge_all(mutants: Sequence[Mutant], jobs: int, servers: EmbeddedServers) -> Iterator[Result]:
    """Each of them, once the tests have passed without any. Raises RuntimeError if they do not."""
    free: SimpleQueue[Tree] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="msh-mutants-") as folder:
        trees = [Tree(Path(folder), number, servers) for number in range(jobs)]
        if any(one.needs_database for one in mutants):
            trees[0].migrate()
            trees[0].renew()
        selected = sorted({test for one in mutants for test in one.tests.split()})
        verdict, detail = trees[0].run_tests(selected, limited=False)
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
