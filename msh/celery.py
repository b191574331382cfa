"""The Celery app of the worker and of beat. Flows publish nudges through it by task name."""

import os
from typing import Any

from celery import Celery
from celery.signals import after_task_publish, beat_init, task_postrun, worker_ready
from kombu import Connection

from msh import memory

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "msh.settings")


class NudgingCelery(Celery):
    """Publishes with one try of at most 100 ms. A worker waits for its broker as usual."""

    PUBLISHING = {"socket_timeout": 0.1, "socket_connect_timeout": 0.1, "max_retries": 0}

    def connection_for_write(self, url: str | None = None, **options: Any) -> Connection:
        options["transport_options"] = (options.get("transport_options") or {}) | self.PUBLISHING
        return super().connection_for_write(url, **options)


@worker_ready.connect
def _settle(**_: Any) -> None:
    memory.settle()


app = NudgingCelery("msh")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@task_postrun.connect
def _note_sweep(**_: Any) -> None:
    """A task was run, so beat or a nudge, the broker and a worker work: /health/ready says so."""
    from msh import health  # noqa: PLC0415  it needs Django's settings

    health.note_sweep()


@beat_init.connect
def _note_beats(**_: Any) -> None:
    """In the process of beat alone: the console says when it has stopped."""
    after_task_publish.connect(_note_beat)


def _note_beat(**_: Any) -> None:
    from msh import health  # noqa: PLC0415  it needs Django's settings

    health.note_beat()
