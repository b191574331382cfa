"""What an MSH without work asks: a task or a statement more each second is seen here."""

import pytest

from msh.beat.schedule import SCHEDULE, Every
from msh.celery import app
from msh.flows.hints import EVERYTHING
from msh.flows.worker_loop import IDLE, WorkerLoop
from msh.tasks import LOOPS

from .work import Work
from .world import make_world

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = {"statements": 1700, "round trips": 860, "transactions": 540, "rows": 5}
TASKS = 33
"""Of one minute."""


def run_a_minute(loops: list[WorkerLoop]) -> int:
    """As if one thread ran it all: how many tasks."""
    app.loader.import_default_modules()
    entries = [(task, when.seconds) for task, when in SCHEDULE.values() if isinstance(when, Every)]
    due = [task for second in range(60) for task, seconds in entries if second % seconds == 0]
    for task in due:
        app.tasks[task]()
    for _ in range(int(60 / IDLE)):
        for loop in loops:
            loop.round(EVERYTHING)
    return len(due)


def test_work_of_an_idle_minute() -> None:
    make_world()
    loops = [loop() for loop in LOOPS.values()]
    run_a_minute(loops)  # statements are planned
    work = Work()

    with work.of("minute"):
        tasks = run_a_minute(loops)

    assert tasks <= TASKS
    work.require(1, MINUTE)
