"""What `make`, the image and CI install is in constraints.txt with the hash of each file."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools.locked import normalised, read, wanted, with_what_they_need

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "constraints.txt").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_each_package_has_one_version_and_its_hashes() -> None:
    locked = read(TEXT)
    assert len(locked) > 100
    for name, one in locked.items():
        assert re.match(r"\S+==\S+", one.text), name
        assert "--hash=sha256:" in one.text, name


def test_no_address_of_a_registry_is_in_it() -> None:
    assert "://" not in TEXT
    assert "index" not in {line.split()[0].strip("-") for line in TEXT.splitlines() if line}


@pytest.mark.parametrize(
    "group", ["project", "build", *PROJECT["project"]["optional-dependencies"]]
)
def test_all_that_a_group_needs_is_in_it(group: str) -> None:
    assert with_what_they_need(wanted(PROJECT, [group]), read(TEXT))


def test_what_is_needed_in_turn_is_listed_and_nothing_else() -> None:
    locked = read(
        "# written by a tool\n"
        "a==1 \\\n    --hash=sha256:1\n    # via\n    #   b-c\n    #   x (pyproject.toml)\n"
        "B_c==2 ; python_version < '4' \\\n    --hash=sha256:2\n    # via d\n"
        "d==3 \\\n    --hash=sha256:3\n    # via x (pyproject.toml)\n"
        "e==4 \\\n    --hash=sha256:4\n    # via x (pyproject.toml)\n"
    )
    assert with_what_they_need({"d"}, locked) == ["a", "b-c", "d"]
    assert locked["b-c"].text == "B_c==2 ; python_version < '4' \\\n    --hash=sha256:2"
    with pytest.raises(KeyError, match="no f: make lock"):
        with_what_they_need({"f"}, locked)


def test_names_are_compared_as_the_index_does() -> None:
    assert normalised("Drf_Spectacular.x[sidecar]~=0.28") == "drf-spectacular-x"
    with pytest.raises(ValueError, match="names no package"):
        normalised("~=1")


def test_floors_of_known_vulnerabilities() -> None:
    floors = {normalised(one): one for one in PROJECT["project"]["dependencies"]}
    assert ">=6.1" in floors["lxml"]
    assert ">=1.4.6" in floors["aiosmtpd"]
    (built_by,) = PROJECT["build-system"]["requires"]
    assert built_by in TEXT


def test_pip_takes_the_list_as_it_is() -> None:
    """In the mode in which each requirement has to have a version and hashes."""
    command = [sys.executable, "tools/locked.py", "build"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert said.startswith("setuptools==")
    assert said.count("--hash=sha256:") >= 1
