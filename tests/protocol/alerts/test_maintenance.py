"""Maintenance windows: what the clock does to them, however late it comes."""

from datetime import UTC, datetime, timedelta

import pytest

from msh.protocol.maintenance import LONG, Window, WindowAct, WindowState

START = datetime(2026, 11, 23, 20, tzinfo=UTC)
END = START + timedelta(hours=2)
SECOND = timedelta(seconds=1)
PLANNED, RUNNING = WindowState.PLANNED, WindowState.RUNNING
OVER = (WindowState.ENDED, WindowState.CANCELLED, WindowState.MISSED)


@pytest.mark.parametrize(
    ("state", "now", "act", "quiet"),
    [
        (PLANNED, START - SECOND, None, False),
        (PLANNED, START, WindowAct.BEGIN, True),
        (PLANNED, END - SECOND, WindowAct.BEGIN, True),
        (PLANNED, END, WindowAct.MISS, False),
        (RUNNING, END - SECOND, None, True),
        (RUNNING, END, WindowAct.END, True),
        (RUNNING, END + timedelta(days=3), WindowAct.END, True),
        *((state, now, None, False) for state in OVER for now in (START, END)),
    ],
)
def test_what_the_clock_does(
    state: WindowState, now: datetime, act: WindowAct | None, quiet: bool
) -> None:
    window = Window(state, START, END)
    assert (window.due_act(now), window.keeps_quiet(now)) == (act, quiet)


@pytest.mark.parametrize(
    ("state", "starts", "ends", "overlaps"),
    [
        (PLANNED, START, END, True),
        (PLANNED, START - SECOND, END + SECOND, True),
        (RUNNING, END - SECOND, END + SECOND, True),
        (PLANNED, END, END + SECOND, False),
        (PLANNED, START - SECOND, START, False),
        (WindowState.CANCELLED, START, END, False),
    ],
)
def test_windows_overlap(
    state: WindowState, starts: datetime, ends: datetime, overlaps: bool
) -> None:
    assert Window(state, START, END).overlaps(starts, ends) == overlaps


def test_long_window() -> None:
    assert not Window(PLANNED, START, START + LONG).is_long
    assert Window(PLANNED, START, START + LONG + SECOND).is_long
