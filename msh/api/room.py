"""Whether the store has room for what applications submit."""

from msh.store.capacity import shortage

from .problems import NotNow


def require_room() -> None:
    """Raises NotNow if the disk or the database is nearly full."""
    short = shortage()
    if short is not None:
        raise NotNow(short.text, short.wait)
