"""How many files, and so connections, this process may have open."""

import resource

UNLIMITED = 1 << 20


def allow_most() -> int:
    """How many, after it has asked for as many as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else UNLIMITED
