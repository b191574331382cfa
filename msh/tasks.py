"""Celery tasks: sweeps of the schedule and wake-ups. A task only polls; the work is in the rows."""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from celery import shared_task
from celery.signals import worker_init
from django.db import DatabaseError

from msh import stopping
from msh.flows.delivery.delivery_loop import DeliveryLoop
from msh.flows.operations.four_eyes.requests import run_prune
from msh.flows.operations.many.bulk_jobs import run as run_bulk_jobs
from msh.flows.operations.many.index_keys import index_keys
from msh.flows.operations.notify_operators import notify_operators as notify_all_operators
from msh.flows.operations.prune import ClockDoubtful, PruningAlready, prune_all
from msh.flows.operations.watch import watch as watch_links
from msh.flows.receiving.forward import run as forward_due
from msh.flows.sending.notification_loop import NotificationLoop
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp, wake_up
from msh.flows.worker_loop import WorkerLoop
from msh.logs import configure_structlog
from msh.store import plans
from msh.store.operations.ongoing import find_ongoing
from msh.store.statistics.collect import collect

logger = logging.getLogger(__name__)
configure_structlog()  # here run the applications' consumers


LOOPS: dict[WakeUp, type[WorkerLoop]] = {
    loop.kind: loop for loop in (SendingLoop, DeliveryLoop, NotificationLoop)
}
SWEPT = (*LOOPS, WakeUp.FORWARD)
"""What a sweep polls for, in this order: forwarding last, because it ends with its work only."""
KEYS_EVERY = 5.0
"""Seconds between two looks for messages whose business keys are to be indexed."""


_loops: dict[type[WorkerLoop], WorkerLoop] = {}
_making = threading.Lock()


def loop_of(kind: type[WorkerLoop]) -> WorkerLoop:
    """The one of this process: two threads that ask first at the same time get the same."""
    with _making:
        if kind not in _loops:
            _loops[kind] = kind()
        return _loops[kind]


@worker_init.connect
def _limit_stop(**_: object) -> None:
    stopping.limit(stop_loops)


def stop_loops() -> None:
    for kind in LOOPS.values():
        loop_of(kind).stop()


@shared_task(name=WakeUp.TRANSMIT.value)
def transmit() -> None:
    _poll(WakeUp.TRANSMIT)


@shared_task(name=WakeUp.DELIVER.value)
def deliver() -> None:
    _poll(WakeUp.DELIVER)


@shared_task(name=WakeUp.FORWARD.value)
def forward() -> None:
    """Forward the messages for parties behind another MSH."""
    _poll(WakeUp.FORWARD)


@shared_task(name=WakeUp.NOTIFY.value)
def notify() -> None:
    _poll(WakeUp.NOTIFY)


@shared_task(name="msh.tasks.sweep")
def sweep() -> None:
    """Poll for every kind of work in one task, because most polls find nothing. A loop that has
    found something stays in this thread, and the kinds after it get tasks of their own."""
    for place, kind in enumerate(SWEPT, start=1):
        try:
            _poll(kind, partial(wake_up, *SWEPT[place:]))
        except Exception:
            logger.exception("%s failed unexpectedly", kind)
    _go_on()


def _go_on() -> None:
    """What is ongoing keeps this thread for a while; the next sweep has another one."""
    try:
        ongoing = find_ongoing()
        if ongoing.key_rules and _keys_pace.is_due():
            plans.plan_freely()
            index_keys()
        if ongoing.bulk_jobs:
            plans.plan_freely()
            run_bulk_jobs()
    except DatabaseError as error:
        logger.warning("bulk jobs and business keys wait for the database: %s", error)


class _Pace:
    """Not more often in this process than every so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due_at = 0.0

    def is_due(self) -> bool:
        now = time.monotonic()
        if now < self._due_at:
            return False
        self._due_at = now + self._seconds
        return True


_keys_pace = _Pace(KEYS_EVERY)


def _poll(kind: WakeUp, on_work: Callable[[], None] = lambda: None) -> None:
    try:
        plans.plan_for_hot_path()
        if kind is WakeUp.FORWARD:
            forward_due()
        else:
            loop_of(LOOPS[kind]).run(on_work)
    except DatabaseError as error:
        logger.warning("%s waits for the database: %s", kind, error)


@shared_task(name="msh.tasks.watch")
def watch() -> None:
    """Probe silent partners that were given a probe; call an operator for links that are stuck.
    Prune, if a second person has confirmed it: that keeps this thread, and the next watch has
    another one."""
    try:
        plans.plan_for_hot_path()
        watch_links()
        run_prune()
    except DatabaseError as error:
        logger.warning("watching waits for the database: %s", error)


@shared_task(name="msh.tasks.collect_statistics")
def collect_statistics() -> None:
    """Count for each partner and agreement what the history has new."""
    try:
        plans.plan_freely()
        collect()
    except DatabaseError as error:
        logger.warning("statistics wait for the database: %s", error)


@shared_task(name="msh.tasks.notify_operators")
def notify_operators() -> None:
    """Notify operators of incidents and late messages, by e-mail and webhook."""
    try:
        plans.plan_freely()
        notify_all_operators()
    except DatabaseError as error:
        logger.warning("notices to operators wait for the database: %s", error)


@shared_task(name="msh.tasks.prune")
def prune() -> None:
    try:
        plans.plan_freely()
        prune_all()
    except PruningAlready as refused:
        logger.warning("nothing was pruned: %s", refused)
    except ClockDoubtful as refused:
        logger.error("nothing was pruned: %s", refused)
    except DatabaseError as error:
        logger.warning("pruning waits for the database: %s", error)
