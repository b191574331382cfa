"""Commands that take longer than ten seconds say what they wait for."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from msh.standalone import running, waiting
from msh.standalone.waiting import Waiting
from msh.store import migrating
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "REPORT_EVERY", 0.02)


def test_lines_are_printed_until_the_end() -> None:
    lines: list[str] = []
    with Waiting(lines.append, "the first") as long:
        wait_until(lambda: len(lines) >= 2)
        assert set(lines) == {"the first: 0 s so far"}
        long.goes_on_with("the second")
        wait_until(lambda: "the second: 0 s so far" in lines)
        long.over()
        count = len(lines)
    assert len(lines) == count
    assert not long._thread.is_alive()


def test_quick_command_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "REPORT_EVERY", 60.0)
    lines: list[str] = []
    with Waiting(lines.append, "this"):
        pass
    assert lines == []


@pytest.mark.django_db
def test_prepare_says_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def migrate(*_: Any, **__: Any) -> None:
        wait_until(lambda: said.append(capsys.readouterr().err) or "".join(said))  # type: ignore[func-returns-value]

    monkeypatch.setattr(migrating, "migrate", migrate)
    call_command("prepare")
    assert "migrating the database: 0 s so far" in "".join(said)


def test_up_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each step goes on until its line is said."""
    lines: list[str] = []

    def until_said(what: str) -> None:
        wait_until(lambda: any(line.startswith(what) for line in lines), what=what)

    class Servers:
        settings: dict[str, str] = {}

        def __init__(self, folder: Path) -> None:
            pass

        def __enter__(self) -> "Servers":
            until_said("PostgreSQL and Valkey start")
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def stop(*_: object) -> None:
        until_said("the web process starts")
        raise KeyboardInterrupt

    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(running, "EmbeddedServers", Servers)
    monkeypatch.setattr(
        running, "_prepare", lambda *_: until_said("the database is being prepared")
    )
    monkeypatch.setattr(running, "_children", lambda *_: [])
    monkeypatch.setattr(running, "_await_ready", stop)
    running.run(tmp_path, 0, on_ready=lambda _: None, on_wait=lines.append)
    assert lines
