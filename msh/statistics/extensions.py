"""What the statistics ask of the core: to count by the clock, and that nothing goes before it is
counted."""

from datetime import timedelta

from msh.flows.operations import sweeps
from msh.flows.operations.prune import messages_needed
from msh.store.clock import read_clock

from .store.collect import collect, counted_up_to, is_counting, look

FOR_EVER = timedelta(days=365_000)

sweeps.for_counts.register(look)
sweeps.for_counts.register(collect)


@messages_needed.register
def until_counted() -> timedelta:
    """Return the age up to which messages and their history stay, because the statistics need them.
    Where nobody counts, nothing is kept for it."""
    if not is_counting():
        return timedelta()
    collect()
    up_to = counted_up_to()
    return read_clock() - up_to if up_to else FOR_EVER
