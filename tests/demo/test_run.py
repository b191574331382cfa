"""The demo as a whole, as a user runs it: two MSHs, faults, a kill or two, a verdict, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.waiting import descendants, is_running, wait_until

ROOT = Path(__file__).resolve().parents[2]
SERVERS = ("DATABASE_URL", "REDIS_URL")


BACKGROUND = ("sh", "-c", """trap '' INT; exec "$@" """, "sh")
"""Starts a program as shells without job control do it in the background: with SIGINT ignored."""


def demo(folder: Path, *words: str, by: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in SERVERS}
    with (folder / "output").open("wb") as output:
        return subprocess.Popen(
            [*by, sys.executable, "-m", "demo", *words],
            cwd=folder,
            env=environment | {"COLUMNS": "120", "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def test_it_ends_with_a_clean_verdict_and_open_consoles_and_leaves_nothing(tmp_path: Path) -> None:
    process = demo(tmp_path, "--messages", "12", "--seed", "3")
    output = tmp_path / "output"
    try:
        wait_until(
            lambda: b"consoles are open" in output.read_bytes() or process.poll() is not None,
            seconds=240,
            what="the end of the demo",
        )
        shown = output.read_text()
        assert process.poll() is None, shown
        verdict = json.loads((tmp_path / "var/demo/verdict.json").read_text())
        assert verdict["good"], shown
        assert (verdict["submitted"], verdict["delivered"]) == (12, 12)
        consoles = [word for word in shown.split() if word.endswith("/admin/")]
        assert len(consoles) == 2
        for console in consoles:
            with urllib.request.urlopen(console) as page:
                assert page.status == 200
        children = descendants(process.pid)
        assert len(children) > 8
    finally:
        process.send_signal(signal.SIGINT)
        status = process.wait(60)
    assert status == 0
    wait_until(lambda: not any(is_running(pid) for pid in children), what="no process left")


def test_it_exchanges_by_mail(tmp_path: Path) -> None:
    process = demo(tmp_path, "--once", "--messages", "4", "--transport", "smtp", "--seed", "2")
    assert process.wait(240) == 0, (tmp_path / "output").read_text()
    verdict = json.loads((tmp_path / "var/demo/verdict.json").read_text())
    assert (verdict["good"], verdict["delivered"]) == (True, 4)


def test_it_exchanges_over_tls_with_client_certificates(tmp_path: Path) -> None:
    process = demo(tmp_path, "--once", "--messages", "8", "--tls", "--kill", "--seed", "2")
    assert process.wait(240) == 0, (tmp_path / "output").read_text()
    verdict = json.loads((tmp_path / "var/demo/verdict.json").read_text())
    assert (verdict["good"], verdict["delivered"]) == (True, 8)


def test_ctrl_c_at_the_start_leaves_nothing(tmp_path: Path) -> None:
    process = demo(tmp_path, "--once", "--messages", "500", by=BACKGROUND)
    try:
        wait_until(lambda: len(descendants(process.pid)) > 4, seconds=60, what="servers started")
        children = descendants(process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        status = process.wait(60)
    assert status == 130
    wait_until(lambda: not any(is_running(pid) for pid in children), what="no process left")


def test_a_folder_without_files_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    process = demo(tmp_path, "--once", "--documents", "empty")
    assert process.wait(60) == 2
    assert "holds no file" in (tmp_path / "output").read_text()
