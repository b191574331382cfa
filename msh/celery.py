"""The Celery app: the worker, beat, and how a nudge is published."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "msh.settings")

app = Celery("msh")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
