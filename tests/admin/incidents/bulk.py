"""The preview of a bulk job, confirmed."""

from datetime import datetime, timedelta
from typing import Any

from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from msh.flows.operations.many import bulk_jobs
from msh.models import BulkAction
from msh.store.history import Actor
from tests.flows.world import World

NEW = reverse("admin:msh_bulkjob_new")
RIGHTS = ("view_bulkjob", "bulk_bulkjob", "view_outboundlink", "resume_outboundlink")
ANN = Actor("ann", "their data centre is back")


def an_hour_ago() -> datetime:
    return timezone.now() - timedelta(hours=1)


def written(at: datetime) -> str:
    """As the browser's field writes it."""
    return timezone.localtime(at).strftime("%Y-%m-%dT%H:%M:%S")


def of_last_hour() -> dict[str, str]:
    """The filter of the list of links."""
    return {"since": written(an_hour_ago())}


def preview_url(action: str, **filters: Any) -> str:
    return f"{NEW}?{urlencode({'action': action, **filters})}"


def keys(page: Any) -> list[int]:
    """Of the rows that a preview has."""
    return [row.key for row in page.context["rows"]]


def confirm(
    client: Client, action: str = "resume", filters: dict[str, Any] | None = None, **fields: Any
) -> Any:
    """Send the preview of the rows of the last hour, or with these filters: all rows of it, or
    those that `keys` names."""
    where = preview_url(action, **(of_last_hour() if filters is None else filters))
    page = client.get(where)
    shown = page.context or {}
    ticked = {"keys": keys(page), "ticked": "yes"} if shown.get("rows") else {}
    seen = {name: shown.get(name) or "" for name in ("seen", "confirmation")}
    return client.post(where, {**seen, **ticked, "reason": "back", **fields})


def start() -> None:
    bulk_jobs.start(BulkAction.RESUME, an_hour_ago(), None, ANN)


def states(worlds: list[World]) -> list[str]:
    return [world.link.state for world in worlds]
