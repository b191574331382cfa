"""Which processes show no sign of life, for every page of the console."""

from collections.abc import Callable

from django.http import HttpRequest

from msh import health


def silent_processes(request: HttpRequest) -> dict[str, Callable[[], list[health.Process]]]:
    """A context processor. Redis is asked only by the template that shows them, and only for a user
    who may see the console."""

    def silent() -> list[health.Process]:
        user = getattr(request, "user", None)
        shown = user is not None and user.is_active and user.is_staff
        return [one for one in health.processes() if not one.alive] if shown else []

    return {"silent_processes": silent}
