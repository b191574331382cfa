import os
import signal
import sys
from pathlib import Path

import pytest

from msh import processes
from msh.standalone import supervisor
from msh.standalone.supervisor import Child, Supervisor

from .waiting import is_running, wait_until

SLEEPS = "import time; print('started', flush=True); time.sleep(600)"
IS_STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"


def child(folder: Path, program: str) -> Child:
    command = [sys.executable, "-c", program]
    return Child("sleeper", command, folder / "sleeper.pid", folder / "sleeper.log")


def pid_of(child: Child) -> int:
    return int(child.pid_file.read_text())


def has_started(child: Child) -> bool:
    return "started" in child.log.read_text()


def test_ended_process_is_restarted_and_stopped_with_the_supervisor(tmp_path: Path) -> None:
    sleeper = child(tmp_path, SLEEPS)
    with Supervisor([sleeper], cwd=tmp_path, env=os.environ) as keeper:
        first = pid_of(sleeper)
        os.kill(first, signal.SIGKILL)

        def restarted() -> bool:
            keeper.watch()
            return pid_of(sleeper) != first

        wait_until(restarted)
        second = pid_of(sleeper)
        assert is_running(second)
    assert not is_running(second)
    assert not sleeper.pid_file.exists()


def test_crashing_process_restarts_with_backoff(tmp_path: Path) -> None:
    broken = child(tmp_path, "raise SystemExit(1)")
    waits = {broken.restarts.wait}
    with Supervisor([broken], cwd=tmp_path, env=os.environ) as keeper:

        def slowed_twice() -> bool:
            keeper.watch()
            waits.add(broken.restarts.wait)
            return len(waits) == 3

        wait_until(slowed_twice)
    assert sorted(waits) == [processes.FIRST_WAIT * factor for factor in (1, 2, 4)]


def test_process_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "STOP_SECONDS", 0.2)
    stubborn = child(tmp_path, IS_STUBBORN)
    with Supervisor([stubborn], cwd=tmp_path, env=os.environ):
        wait_until(lambda: has_started(stubborn))
        pid = pid_of(stubborn)
    assert not is_running(pid)


def test_dependent_process_starts_when_it_may(tmp_path: Path) -> None:
    held = child(tmp_path, SLEEPS)
    allowed = False
    held.may_start = lambda: allowed
    with Supervisor([held], cwd=tmp_path, env=os.environ) as keeper:
        keeper.watch()
        assert held.process is None
        allowed = True
        keeper.watch()
        assert is_running(pid_of(held))


def test_dependent_process_starts_after_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LONGEST_HOLD", 0.2)
    held = child(tmp_path, SLEEPS)
    held.may_start = lambda: False
    with Supervisor([held], cwd=tmp_path, env=os.environ) as keeper:
        assert held.process is None

        def started() -> bool:
            keeper.watch()
            return held.process is not None

        wait_until(started)
