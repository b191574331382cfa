"""The settings of commands that only read from an MSH, or act on it by one of its flows.

Without the apps of the console, the API, beat and the runner: their imports take longer than the
commands, which scripts call by the hundred.
"""

from msh import trace_hook
from msh.settings import *  # noqa: F403

INSTALLED_APPS = [
    "msh",
    "msh.alerts",
    "msh.business_keys",
    "msh.four_eyes",
    "msh.statistics",
    "msh.management.inspection",
    "partners",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    *trace_hook.apps(MSH_OTLP_ENDPOINT, MSH_TRACES_SHARE),  # noqa: F405
]
