"""The web process: `granian --interface wsgi msh.wsgi:application`."""

import os

from django.core.checks import ERROR, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application

from msh import memory
from msh.processes import die_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "msh.settings")

if "MSH_SUPERVISED" in os.environ:  # granian's workers, which a kill -9 of granian would orphan
    die_with_parent(os.getppid())

_django = get_wsgi_application()

from msh.endpoint import EndpointApplication  # noqa: E402  it needs Django set up

application = EndpointApplication(_django)

_errors = [message for message in run_checks() if message.level >= ERROR]
if _errors:
    raise ImproperlyConfigured("\n".join(str(message) for message in _errors))

memory.settle()
