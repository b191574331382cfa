"""The sweep: one task polls for every kind of work."""

from collections.abc import Callable

import pytest
from django.db import DatabaseError

from msh import tasks
from msh.flows.wake_up import WakeUp
from msh.flows.worker_loop import WorkerLoop

pytestmark = pytest.mark.django_db


@pytest.fixture
def polled(monkeypatch: pytest.MonkeyPatch) -> list[WakeUp]:
    """The kinds that were polled; forwarding finds nothing."""
    polled: list[WakeUp] = []
    monkeypatch.setattr(tasks, "forward_due", lambda: polled.append(WakeUp.FORWARD))

    def run(loop: WorkerLoop, on_work: Callable[[], None]) -> None:
        polled.append(loop.kind)

    monkeypatch.setattr(WorkerLoop, "run", run)
    return polled


def test_sweep_polls_for_every_kind_of_work(polled: list[WakeUp]) -> None:
    tasks.sweep()
    assert sorted(polled) == sorted(WakeUp)


@pytest.mark.parametrize("error", [DatabaseError, ValueError])
def test_kind_that_raises_an_error_stops_no_other(
    polled: list[WakeUp], monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(loop: WorkerLoop, on_work: Callable[[], None]) -> None:
        raise error

    monkeypatch.setattr(WorkerLoop, "run", fail)
    tasks.sweep()
    assert polled == [WakeUp.FORWARD]


def test_loop_that_stays_awake_leaves_the_others_to_their_own_tasks(
    polled: list[WakeUp], monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[tuple[WakeUp, ...]] = []
    monkeypatch.setattr(tasks, "wake_up", lambda *kinds: woken.append(kinds))
    monkeypatch.setattr(WorkerLoop, "run", lambda loop, on_work: on_work())
    tasks.sweep()
    assert woken == [tasks.SWEPT[1:], tasks.SWEPT[2:], tasks.SWEPT[3:]]
