"""A round of the sending loop that raised an error, done again: each unit in a transaction of its
own, so that the one that raises the error again stops no other.

The usual round is one transaction, because that is fast.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import transaction

from msh.flows.sending.kinds import Unit
from msh.store import capacity
from msh.store.sending import polling
from msh.store.sending.isolation import describe
from msh.transport.job import Job

logger = logging.getLogger(__name__)

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Done:
    """`settled`: it need not be done again. `work` is what was written, None if nothing was."""

    settled: bool
    work: Any = None
    jobs: tuple[Job, ...] = ()


def do(unit: Unit, act: Callable[[Any], list[Job] | None]) -> Done:
    """Let `act` record or claim the unit, or isolate it. Raises only what says that the database is
    gone."""
    try:
        with transaction.atomic():
            polling.wait_briefly()
            work = unit.lock()
            jobs = act(work) or ()
            work.write()
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.exception("%s could not be processed", unit.name)
        return Done(capacity.is_lasting(error) and _isolated(unit, error))
    return Done(True, work, tuple(jobs))


def _isolated(unit: Unit, error: Exception) -> bool:
    try:
        with transaction.atomic():
            unit.isolate(describe(error))
    except Exception as another:
        if capacity.is_gone(another):
            raise
        logger.exception("%s could not be isolated", unit.name)
        return capacity.is_lasting(another)
    return True


def found(find: Callable[[], list[Found]]) -> list[Found]:
    """Nothing if it cannot be looked for."""
    rows: list[Found] = []
    tried(lambda: rows.extend(find()))
    return rows


def tried(act: Callable[[], None]) -> bool:
    """In a transaction; False if it raised an error."""
    try:
        with transaction.atomic():
            act()
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.exception("polling for work failed")
        return False
    return True
