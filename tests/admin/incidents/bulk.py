"""The form of bulk jobs, filled in and confirmed."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.test import Client
from django.urls import reverse
from django.utils import timezone

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


def confirm(client: Client, action: str = "resume", **fields: Any) -> Any:
    since = an_hour_ago().replace(microsecond=0)
    data = {"action": action, "since": written(since), "seen": bulk_jobs.seen(action, since)}
    return client.post(NEW, {**data, "confirmation": uuid4(), "reason": "back", **fields})


def start() -> None:
    since = an_hour_ago()
    bulk_jobs.start(BulkAction.RESUME, since, bulk_jobs.seen(BulkAction.RESUME, since), ANN)


def states(worlds: list[World]) -> list[str]:
    return [world.link.state for world in worlds]
