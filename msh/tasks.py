"""The clock comes in. Every task only looks; the work is in the rows."""

import logging
from functools import cache

from celery import shared_task
from celery.signals import worker_shutting_down
from django.db import DatabaseError

from msh.flows.bulk import run as run_bulk_jobs
from msh.flows.call_operators import call_operators as call
from msh.flows.deliver import Deliveries
from msh.flows.drain import Drain
from msh.flows.forward import run as forward_due
from msh.flows.notify import Notices
from msh.flows.nudge import Nudge
from msh.flows.prune import ClockDoubtful, PruningAlready, prune_all
from msh.flows.watch import watch as watch_links
from msh.logs import configure_structlog
from msh.store import plans
from msh.store.clock import read_clock
from msh.store.operations import traffic

logger = logging.getLogger(__name__)
configure_structlog()  # here run the applications' consumers


@cache
def drain() -> Drain:
    """This process's one drain."""
    return Drain()


@cache
def deliveries() -> Deliveries:
    """This process's one loop that delivers."""
    return Deliveries()


@cache
def notices() -> Notices:
    """This process's one loop that tells the From-Party's application."""
    return Notices()


@worker_shutting_down.connect
def _stop(**_: object) -> None:
    drain().stop()
    deliveries().stop()
    notices().stop()


@shared_task(name=Nudge.CARRY.value)
def carry() -> None:
    """Carry the copies and signals that are due."""
    try:
        plans.plan_for_hot_path()
        drain().run()
    except DatabaseError as error:
        logger.warning("carrying waits for the database: %s", error)


@shared_task(name=Nudge.DELIVER.value)
def deliver() -> None:
    """Deliver accepted messages."""
    try:
        plans.plan_for_hot_path()
        deliveries().run()
    except DatabaseError as error:
        logger.warning("delivery waits for the database: %s", error)


@shared_task(name=Nudge.FORWARD.value)
def forward() -> None:
    """Send on the messages that are for parties behind another MSH."""
    try:
        plans.plan_for_hot_path()
        forward_due()
    except DatabaseError as error:
        logger.warning("sending on waits for the database: %s", error)


@shared_task(name=Nudge.NOTIFY.value)
def notify() -> None:
    """Tell the From-Party's application what became of its messages."""
    try:
        plans.plan_for_hot_path()
        notices().run()
    except DatabaseError as error:
        logger.warning("notification waits for the database: %s", error)


@shared_task(name="msh.tasks.watch")
def watch() -> None:
    """Probe silent partners that were given a probe; call an operator for links that are stuck."""
    try:
        plans.plan_for_hot_path()
        watch_links()
    except DatabaseError as error:
        logger.warning("watching waits for the database: %s", error)


@shared_task(name="msh.tasks.count_traffic")
def count_traffic() -> None:
    """Count the messages of the last minutes, for the console."""
    try:
        plans.plan_freely()
        traffic.count_traffic(read_clock())
    except DatabaseError as error:
        logger.warning("counting waits for the database: %s", error)


@shared_task(name="msh.tasks.call_operators")
def call_operators() -> None:
    """Tell operators of incidents and late messages, by e-mail and webhook."""
    try:
        plans.plan_freely()
        call()
    except DatabaseError as error:
        logger.warning("calls to operators wait for the database: %s", error)


@shared_task(name="msh.tasks.bulk")
def bulk() -> None:
    """Go on with the bulk jobs that operators have started."""
    try:
        plans.plan_freely()
        run_bulk_jobs()
    except DatabaseError as error:
        logger.warning("bulk jobs wait for the database: %s", error)


@shared_task(name="msh.tasks.prune")
def prune() -> None:
    """Remove what is older than it has to be kept."""
    try:
        plans.plan_freely()
        prune_all()
    except PruningAlready as refused:
        logger.warning("nothing was pruned: %s", refused)
    except ClockDoubtful as refused:
        logger.error("nothing was pruned: %s", refused)
    except DatabaseError as error:
        logger.warning("pruning waits for the database: %s", error)
