"""Celery tasks: the loops of a worker, and what the schedule runs. The work itself is in the rows.

Each worker process runs one loop of each kind, in a task that ends with the process. The worker
queues these tasks for itself when it is ready, and looks every few seconds for a loop that has
ended, because it raised an error or because its task was lost in Redis.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis
from celery import Task, concurrency, shared_task
from celery.concurrency.thread import TaskPool
from celery.signals import worker_init, worker_ready
from celery.utils import worker_direct
from django.db import DatabaseError

from msh import stopping
from msh.celery import app
from msh.flows.delivery.delivery_loop import DeliveryLoop
from msh.flows.operations import sweeps
from msh.flows.operations.certificates import call_for_ending
from msh.flows.operations.many.bulk_jobs import run as run_bulk_jobs
from msh.flows.operations.prune import ClockDoubtful, PruningAlready, prune_all
from msh.flows.operations.watch import watch as watch_links
from msh.flows.receiving.forward import ForwardingLoop
from msh.flows.sending.notification_loop import NotificationLoop
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp, shared_client
from msh.flows.worker_loop import WorkerLoop
from msh.log_lines import configure_structlog
from msh.store import plans
from msh.store.operations.ongoing import find_ongoing

logger = logging.getLogger(__name__)
configure_structlog()  # here run the applications' consumers


# --- the loops ------------------------------------------------------------------------------------
LOOPS: dict[WakeUp, type[WorkerLoop]] = {
    loop.kind: loop for loop in (SendingLoop, DeliveryLoop, ForwardingLoop, NotificationLoop)
}
LOOK_EVERY = 5.0
"""Seconds after which a worker begins a loop again that has ended."""
THREADS = len(LOOPS) + 1
"""Each loop keeps one; what the schedule runs needs another."""

_loops: dict[type[WorkerLoop], WorkerLoop] = {}
_making = threading.Lock()


def loop_of(kind: type[WorkerLoop]) -> WorkerLoop:
    """The one of this process: two threads that ask first at the same time get the same."""
    with _making:
        if kind not in _loops:
            _loops[kind] = kind()
        return _loops[kind]


@worker_init.connect
def _require_threads(sender: Any, **_: object) -> None:
    """End this process, which says why, if its pool has no thread for each loop."""
    pool = concurrency.get_implementation(sender.pool_cls)
    threads = sender.concurrency if issubclass(pool, TaskPool) else 0
    if not isinstance(threads, int) or threads < THREADS:
        sys.exit(
            "The worker needs a thread for each of its loops, and one more: start it with"
            f" --pool threads --concurrency 8; the least is {THREADS}"
        )


@worker_init.connect
def _limit_stop(**_: object) -> None:
    stopping.limit(stop_loops)


def stop_loops() -> None:
    for kind in LOOPS.values():
        loop_of(kind).stop()


@worker_ready.connect
def _begin_loops(sender: Any, **_: object) -> None:
    """Queue the loops, in a thread of its own: it may wait for Redis."""
    keeping = threading.Thread(target=_keep_loops, args=(sender.hostname,), daemon=True)
    keeping.start()


def _keep_loops(worker: str) -> None:
    while True:
        try:
            queue_loops(worker)
        except Exception as error:  # noqa: BLE001  whatever it is, it is tried again
            logger.warning("the loops of this worker cannot be queued: %s", error)
        time.sleep(LOOK_EVERY)


def queue_loops(worker: str) -> None:
    """Queue the tasks of the loops that do not run in this process, for no other than this
    `worker`. A task that is queued once too often returns at once."""
    for kind, loop in LOOPS.items():
        if loop_of(loop).is_needed():
            app.send_task(kind.value, queue=worker_direct(worker).name)


@shared_task(name=WakeUp.TRANSMIT.value)
def transmit() -> None:
    _run(SendingLoop)


@shared_task(name=WakeUp.DELIVER.value)
def deliver() -> None:
    _run(DeliveryLoop)


@shared_task(name=WakeUp.FORWARD.value)
def forward() -> None:
    """Forward the messages for parties behind another MSH."""
    _run(ForwardingLoop)


@shared_task(name=WakeUp.NOTIFY.value)
def notify() -> None:
    _run(NotificationLoop)


def _run(loop: type[WorkerLoop]) -> None:
    plans.plan_for_hot_path()
    loop_of(loop).run()


# --- the schedule ---------------------------------------------------------------------------------
MOST_WAITING = 100
"""Tasks in the queue above which the schedule adds none: nobody takes them."""


class Sweep(Task):  # type: ignore[type-arg] # it is generic for type checkers only
    """A task that only looks for work, so that one that is not queued is not missed. Without a
    worker, a day would leave fifty thousand of them in Redis. Several at once, as of two beats, do
    no harm: rows are locked, or counted anew."""

    def apply_async(self, *args: Any, **options: Any) -> Any:
        """Queue the task. Returns None if it was not queued."""
        queue = options.get("queue") or app.conf.task_default_queue
        with suppress(redis.RedisError):
            if shared_client().llen(queue) >= MOST_WAITING:
                return None
        return super().apply_async(*args, **options)


def _look(
    about: str, *acts: Callable[[], object], plan: Callable[[], None] = plans.plan_freely
) -> None:
    """Without the database, the next run does it."""
    try:
        plan()
        for act in acts:
            act()
    except DatabaseError as error:
        logger.warning("%s: waiting for the database: %s", about, error)


@shared_task(name="msh.tasks.sweep", base=Sweep)
def sweep() -> None:
    """Go on with bulk jobs and business keys."""
    _look("bulk jobs and business keys", _go_on)


def _go_on() -> None:
    """A slice keeps this thread for a while. After one of a bulk job the next follows at once."""
    ongoing = find_ongoing()
    if ongoing.key_rules:
        for index_keys in sweeps.for_business_keys:
            index_keys()
    if ongoing.bulk_jobs and run_bulk_jobs():
        with suppress(Exception):  # without Redis, beat queues it when there is one
            sweep.apply_async(retry=False)


@shared_task(name="msh.tasks.watch", base=Sweep)
def watch() -> None:
    """Probe silent partners that were given a probe; call an operator for links that are stuck.
    Prune, if a second person has confirmed it: that keeps this thread, and the next watch has
    another one."""
    _look("watching", watch_links, *sweeps.for_confirmed_acts, plan=plans.plan_for_hot_path)


@shared_task(name="msh.tasks.look_for_ends", base=Sweep)
def look_for_ends() -> None:
    """Call an operator for certificates and agreements that end soon, or have a successor."""
    _look("ends of certificates and agreements", call_for_ending)


@shared_task(name="msh.tasks.collect_statistics", base=Sweep)
def collect_statistics() -> None:
    """Count for each partner and agreement what the history has new."""
    _look("statistics", *sweeps.for_counts)


@shared_task(name="msh.tasks.notify_operators", base=Sweep)
def notify_operators() -> None:
    """Notify operators of incidents and late messages, by e-mail and webhook."""
    _look("notices to operators", *sweeps.for_notices)


@shared_task(name="msh.tasks.prune")
def prune() -> None:
    _look("pruning", _prune)


def _prune() -> None:
    try:
        prune_all()
    except PruningAlready as refused:
        logger.warning("nothing was pruned: %s", refused)
    except ClockDoubtful as refused:
        logger.error("nothing was pruned: %s", refused)
