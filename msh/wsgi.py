"""What the web processes serve: `python -m msh.web`."""

import os

import django
from django.core.checks import ERROR, run_checks
from django.core.exceptions import ImproperlyConfigured

from msh import memory

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "msh.settings")

django.setup(set_prefix=False)

from msh.endpoint import EndpointApplication  # noqa: E402  it needs Django set up
from msh.web.headers import HeaderCheck, Utf8Handler  # noqa: E402

application = HeaderCheck(EndpointApplication(Utf8Handler()))

_errors = [message for message in run_checks() if message.level >= ERROR]
if _errors:
    raise ImproperlyConfigured("\n".join(str(message) for message in _errors))

memory.freeze()
