"""The Celery app of the worker and of beat."""

import os
import sys
from typing import Any

from celery import Celery
from celery.signals import beat_init, import_modules, task_prerun, worker_init, worker_ready
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections
from kombu import Connection

from msh import memory, processes, stopping

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "msh.settings")
# Celery would run Django's checks, which load the console and the API, and drop what they say. The
# web process runs them, and `require_store` those without which nothing can be sent.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")


class WakeUpCelery(Celery):
    """Publishes with one try of at most 100 ms. A worker waits for its broker as usual."""

    PUBLISHING = {"socket_timeout": 0.1, "socket_connect_timeout": 0.1, "max_retries": 0}

    def connection_for_write(self, url: str | None = None, **options: Any) -> Connection:
        options["transport_options"] = (options.get("transport_options") or {}) | self.PUBLISHING
        return super().connection_for_write(url, **options)


@import_modules.connect  # before the receiver that Celery connects for an app
def _begin_to_load(**_: object) -> None:
    memory.pause_collector()


@beat_init.connect
@worker_ready.connect
def _settle(**_: object) -> None:
    memory.freeze()
    processes.raise_file_limit()  # each loop has up to 512 POSTs under way


app = WakeUpCelery("msh")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
# Celery would close the connection to the database after every task. Instead each task asks whether
# its thread's is still good, as a request does.
app.conf.CELERY_DB_REUSE_MAX = sys.maxsize
# Nobody uses it, and its end would open connections to the broker.
app.conf.worker_enable_remote_control = False


@beat_init.connect  # the worker's is in `msh/tasks.py`, with its loops
def _limit_stop(**_: object) -> None:
    stopping.limit()


@worker_init.connect
def require_store(**_: object) -> None:
    """End this process, which says why, if it could not work. Beat's scheduler calls it too.

    By SystemExit, because Celery logs anything less that a receiver raises, and goes on.
    """
    from msh import checks  # noqa: PLC0415  it needs Django's settings

    try:
        checks.require()
    except ImproperlyConfigured as wrong:
        sys.exit(str(wrong))


@task_prerun.connect
def _renew_connection(**_: object) -> None:
    close_old_connections()
