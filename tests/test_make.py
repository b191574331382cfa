"""A missing prerequisite is one line that names the cure."""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOO_OLD = "exit 1"
NEEDS_MORE = {
    "browser": "Chromium",
    "cases": "time: public bug reports, at the real web server",
    "client": "time: the real web server",
    "conformance": "time: pytest runs of its own",
    "corpus": "time: messages of other products, at the real web server",
    "delivery": "time: consumers that hang, queues of thousands, retention",
    "demo": "time: two MSHs with a proxy between them",
    "embedded": "root, to start servers as another user",
    "endpoint": "time: the real web server",
    "exchange": "time: MSHs of many processes, which are killed",
    "hosts": "root, network namespaces, a C compiler and PgBouncer",
    "many": "time: exports, replays and searches of thousands",
    "processes": "time: `manage.py up`, processes without a database or a feature",
    "sign_on": "time: an identity provider",
    "signatures": "a JDK and xmlsec1 of Debian, which verify what we sign",
    "smtpd": "time: a mail server, storms of connections",
    "spark": "Java 17",
    "tracing": "time: processes with OpenTelemetry",
    "upgrade": "time: an MSH is migrated at work",
    "web": "time: the real web server, storms of connections",
}
"""The folders of tests that `make test` leaves out, and why. All others are in `testpaths`."""
WITHOUT_VENV = 'case "$2" in *ensurepip*) exit 1 ;; esac'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(checkout: Path, *words: str, path: str = os.environ["PATH"]) -> tuple[int, list[str]]:
    """Its exit status, and what it said but for make's own closing line."""
    program = shutil.which("make")
    assert program
    of_make = ("MAKE", "MFLAGS", "PYTHON", "ARGS")  # this test may itself be run by make
    environment = {n: v for n, v in os.environ.items() if not n.startswith(of_make)}
    finished = subprocess.run(
        [program, "--no-print-directory", *words],
        cwd=checkout,
        env=environment | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (finished.stdout + finished.stderr).splitlines()
    return finished.returncode, [line for line in lines if not line.startswith("make: ***")]


def python(folder: Path, body: str) -> str:
    program = folder / "python-for-test"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("target", ["demo", "test"])
def test_python_that_is_too_old(checkout: Path, target: str) -> None:
    status, said = make(checkout, target, f"PYTHON={python(checkout, TOO_OLD)}")
    assert status == 2
    cure = f"make {target} PYTHON=/path/to/python3"
    assert said == [f"Python 3.11 or newer is missing: install it, or name it: {cure}"]


def test_no_python_at_all(checkout: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "false").symlink_to("/bin/false")
    status, said = make(checkout, "test", path=str(bare))
    assert status == 2
    assert [line[:33] for line in said] == ["Python 3.11 or newer is missing: "]


def test_python_without_venv(checkout: Path) -> None:
    program = python(checkout, WITHOUT_VENV)
    status, said = make(checkout, "test", f"PYTHON={program}")
    assert status == 2
    cure = "install it (Debian, Ubuntu: apt install python3-venv)"
    assert said == [f"The venv module of {program} is missing: {cure}"]


def test_each_folder_of_tests_is_in_make_test_or_needs_more() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    *folders, files = settings["tool"]["pytest"]["ini_options"]["testpaths"]
    assert files == "tests/test_*.py"
    chosen = {name.removeprefix("tests/") for name in folders}
    found = (file.relative_to(ROOT / "tests") for file in (ROOT / "tests").rglob("test_*.py"))
    assert chosen.isdisjoint(NEEDS_MORE)
    assert chosen | set(NEEDS_MORE) == {file.parts[0] for file in found if len(file.parts) > 1}


@pytest.mark.parametrize(("target", "installs"), [("test", False), ("test-all", True)])
def test_make_test_installs_no_program(checkout: Path, target: str, installs: bool) -> None:
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/python").touch()
    status, said = make(checkout, "--dry-run", target)
    assert status == 0
    assert any("apt-get" in line for line in said) == installs
    assert any("testpaths=tests" in line for line in said) == installs


def test_help_names_every_command(checkout: Path) -> None:
    status, said = make(checkout)
    assert status == 0
    targets = (
        "demo",
        "audit",
        "siege",
        "scale-out",
        "upgrade-test",
        "image-test",
        "up",
        "test",
        "test-all",
        "check",
        "docs",
        "migrations",
        "coverage",
        "coverage-all",
        "conformance",
        "mutants",
        "bench",
        "bench-long",
        "bench-work",
        "bench-console",
        "bench-spark",
        "bench-report",
        "pictures",
        "slow-clients",
        "dist",
        "check-dist",
        "audit-dependencies",
        "lock",
        "clean",
    )
    assert [line.split()[1] for line in said if line.startswith("make ")] == list(targets)
