"""Work that takes longer than a sweep. It is asked for each second, so by one statement."""

from dataclasses import dataclass

from msh.store.engine import Statement, run


@dataclass(frozen=True, slots=True)
class Ongoing:
    bulk_jobs: bool
    """Some run."""
    key_rules: bool
    """There are some, so that keys are to be indexed or removed."""


_FIND_ONGOING = Statement(
    """
    SELECT EXISTS (SELECT FROM msh_bulkjob WHERE state = 'running') AS bulk_jobs,
           EXISTS (SELECT FROM msh_keyrule) AS key_rules
    """,
    Ongoing,
)


def find_ongoing() -> Ongoing:
    ((found,),) = run(_FIND_ONGOING())
    return found
