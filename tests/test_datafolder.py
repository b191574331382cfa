"""How a command finds its MSH."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from msh.standalone import datafolder


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    kept = dict(os.environ)
    for name in ("MSH_DATA", "MSH_URI", "DATABASE_URL"):
        os.environ.pop(name, None)
    yield
    os.environ.clear()
    os.environ.update(kept)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    datafolder.write(tmp_path, datafolder.SETTINGS, {"MSH_URI": "http://kept.example/"})
    datafolder.write(tmp_path, datafolder.SERVERS, {"DATABASE_URL": "postgres://kept"})
    return tmp_path


def loaded(*arguments: str) -> tuple[str | None, str | None]:
    datafolder.load_from_arguments(arguments)
    return os.environ.get("MSH_URI"), os.environ.get("DATABASE_URL")


def test_folder_is_named_by_option_or_environment(folder: Path) -> None:
    kept = ("http://kept.example/", "postgres://kept")
    assert loaded("links") == (None, None)
    assert loaded("links", f"--data={folder}") == kept
    for name in ("MSH_URI", "DATABASE_URL"):
        del os.environ[name]
    assert loaded("links") == kept  # MSH_DATA was set for the processes it starts


def test_last_option_counts_as_it_does_for_the_command(folder: Path) -> None:
    loaded("links", "--data", "/nowhere", "--data", str(folder))
    assert os.environ["MSH_DATA"] == str(folder)


def test_environment_wins_over_stored_settings(folder: Path) -> None:
    os.environ["MSH_URI"] = "http://given.example/"
    os.environ["MSH_DATA"] = str(folder)
    assert loaded("links") == ("http://given.example/", "postgres://kept")
    assert loaded("up", "--data", str(folder))[0] == "http://given.example/"


def test_a_command_acts_on_the_msh_that_its_option_names(folder: Path) -> None:
    """And not on another one, whose servers the environment happens to name."""
    os.environ |= {"MSH_URI": "http://other.example/", "DATABASE_URL": "postgres://other"}
    assert loaded("suspend", "--data", str(folder)) == ("http://kept.example/", "postgres://kept")


def test_up_does_not_take_the_servers_of_its_last_run_for_given_ones(folder: Path) -> None:
    assert loaded("up", "--data", str(folder)) == ("http://kept.example/", None)


def test_up_keeps_everything_in_one_folder_if_none_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / datafolder.OF_UP).mkdir()
    (folder / datafolder.SETTINGS).rename(folder / datafolder.OF_UP / datafolder.SETTINGS)
    assert loaded("up")[0] == "http://kept.example/"
    assert os.environ["MSH_DATA"] == str(folder / datafolder.OF_UP)


def test_command_without_a_running_msh_is_refused(folder: Path) -> None:
    (folder / datafolder.SERVERS).unlink()
    with pytest.raises(datafolder.NotRunning, match="No MSH runs in"):
        loaded("links", "--data", str(folder))


def test_secrets_are_readable_by_their_owner_only(folder: Path) -> None:
    for file in (datafolder.SETTINGS, datafolder.SERVERS):
        assert (folder / file).stat().st_mode & 0o777 == 0o600
