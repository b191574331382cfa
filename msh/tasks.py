"""The clock comes in. Every task only looks; the work is in the rows (DESIGN 1)."""

import logging
from functools import cache

from celery import shared_task
from celery.signals import worker_shutting_down
from django.db import DatabaseError

from msh.flows.deliver import deliver as deliver_due
from msh.flows.drain import Drain
from msh.flows.forward import forward as forward_due
from msh.flows.notify import notify as notify_due
from msh.flows.nudge import Nudge, answered

logger = logging.getLogger(__name__)


@cache
def drain() -> Drain:
    """This process's one drain."""
    return Drain()


@worker_shutting_down.connect
def _stop(**_: object) -> None:
    drain().stop()


@shared_task(name=Nudge.CARRY.value)
def carry() -> None:
    """Carry the copies and signals that are due."""
    try:
        drain().run()
    except DatabaseError as error:
        logger.warning("carrying waits for the database: %s", error)


@shared_task(name=Nudge.DELIVER.value)
def deliver() -> None:
    """Deliver accepted messages until none is due."""
    answered(Nudge.DELIVER)
    try:
        while deliver_due():
            pass
    except DatabaseError as error:
        logger.warning("delivery waits for the database: %s", error)


@shared_task(name=Nudge.FORWARD.value)
def forward() -> None:
    """Send on the messages that are for parties behind another MSH."""
    answered(Nudge.FORWARD)
    try:
        while forward_due():
            pass
    except DatabaseError as error:
        logger.warning("sending on waits for the database: %s", error)


@shared_task(name=Nudge.NOTIFY.value)
def notify() -> None:
    """Tell the From-Party's application what became of its messages."""
    answered(Nudge.NOTIFY)
    try:
        while notify_due():
            pass
    except DatabaseError as error:
        logger.warning("notification waits for the database: %s", error)
