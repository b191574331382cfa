"""When Python's collector of cycles comes: it counts objects, and our messages are bytes."""

import gc

BYTES_A_COLLECTION = 16 * 1024 * 1024  # of bodies taken in

_taken = 0


def pause_collector() -> None:
    """Until `freeze`: modules are no garbage, and looking for some while they load takes a sixth of
    the time."""
    gc.disable()


def freeze() -> None:
    """Exclude all loaded objects from garbage collection, and collect the others less often.

    Call it in a server process after all imports.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def collect_after(size: int) -> None:
    """Count a body of `size` bytes; after so many in all, collect those that are done with.

    Django's requests, REST framework's and the database's errors are in cycles, and keep what they
    handled until they are collected. By their number that would be after gigabytes.
    """
    global _taken
    _taken += size  # two threads may lose one: it is no account, only a measure
    if _taken >= BYTES_A_COLLECTION:
        _taken = 0
        gc.collect()
