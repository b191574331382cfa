"""What `export-partner` and `import-partner` say to scripts."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from msh.store.operations import moving
from tests.flows.world import World
from tests.moving.conftest import There
from tests.moving.test_moving import suspend

pytestmark = pytest.mark.django_db(transaction=True)
WHY = {"reason": "moves"}


def test_file_that_cannot_be_written_closes_nobody(world: World, tmp_path: Path) -> None:
    suspend(world.there)
    nowhere = tmp_path / "missing" / "partner.zip"
    with pytest.raises(CommandError, match=r"missing/partner.zip cannot be written: No such file"):
        call_command("export-partner", world.there.name, str(nowhere), to="b", **WHY)
    call_command("resume", world.there.name, **WHY)


def test_folder_is_no_file_to_export_to(world: World, tmp_path: Path) -> None:
    suspend(world.there)
    with pytest.raises(CommandError, match=f"{tmp_path} is a folder: specify a file"):
        call_command("export-partner", world.there.name, str(tmp_path), to="b", **WHY)
    call_command("resume", world.there.name, **WHY)


def test_file_of_another_export_is_kept(world: World, file: Path) -> None:
    """It is under way, or was broken off."""
    suspend(world.there)
    other = file.with_name("partner.zip.new")
    other.write_text("of somebody else")
    with pytest.raises(CommandError, match=r"partner\.zip\.new exists: .* remove it"):
        call_command("export-partner", world.there.name, str(file), to="b", **WHY)
    assert other.read_text() == "of somebody else"
    call_command("resume", world.there.name, **WHY)


def test_export_that_fails_leaves_nothing(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspend(world.there)
    with monkeypatch.context() as patch:
        patch.setattr(moving, "TABLES", ["no table"])
        with pytest.raises(AttributeError):
            call_command("export-partner", world.there.name, str(file), to="b", **WHY)
    assert list(file.parent.iterdir()) == []
    call_command("export-partner", world.there.name, str(file), to="b", **WHY)
    assert list(file.parent.iterdir()) == [file]


def test_export_wants_a_file_and_a_name(world: World, file: Path) -> None:
    for words in ([], [str(file)]):
        with pytest.raises(CommandError, match="Specify a file, and the other MSH with --to"):
            call_command("export-partner", world.there.name, *words, **WHY)


def test_export_and_import_are_told_and_undone(
    world: World, file: Path, there: There, capsys: Any
) -> None:
    name = world.there.name
    suspend(world.there)
    call_command("export-partner", name, str(file), to="b", **WHY)
    call_command("export-partner", name, undo=True, **WHY)
    said = capsys.readouterr().out
    assert f"{name} was exported to {file} and is no longer served here" in said
    assert f"{name} is served here again. Its link is still suspended" in said
    with pytest.raises(CommandError, match="was not exported"):
        call_command("export-partner", name, undo=True, **WHY)

    call_command("export-partner", name, str(file), to="b", **WHY)
    capsys.readouterr()
    with there():
        for again in (False, True):
            call_command("import-partner", str(file), json=True, **WHY)
            assert json.loads(capsys.readouterr().out) == {"partner": name, "again": again}
        call_command("import-partner", str(file), **WHY)
        assert "was imported before: nothing was changed" in capsys.readouterr().out


def test_file_that_is_no_export_is_named(world: World, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.zip"
    with pytest.raises(CommandError, match=r"No such file or directory: .*wrong\.zip"):
        call_command("import-partner", str(wrong), **WHY)
    wrong.write_text("no archive")
    with pytest.raises(CommandError, match=r"wrong\.zip is not an export of a partner"):
        call_command("import-partner", str(wrong), **WHY)
