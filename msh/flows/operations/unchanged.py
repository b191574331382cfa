"""An action that is done only if its row is as it was seen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from msh.flows.errors import NotPossible


class Changed(NotPossible):
    """The row is not as it was seen any more. Nothing was done."""


@contextmanager
def as_seen(row: Any, is_seen: Callable[[], bool]) -> Iterator[None]:
    """Around an action on a row, which is locked first. Raises Changed.

    Only for rows that the action itself locks before all others, or alone (ARCHITECTURE, The order
    of row locks). The action wakes the loops before the commit: if they come too early, their next
    poll finds the work.
    """
    with transaction.atomic():
        rows = type(row).objects.select_for_update(of=("self",), no_key=True)
        if rows.filter(pk=row.pk).first() is None or not is_seen():
            raise Changed(
                "It has changed since it was read with this ETag. Nothing was done: read it again."
            )
        yield
