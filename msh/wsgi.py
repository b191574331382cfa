"""The WSGI application that the web processes serve: `python -m msh.web`."""

import os

from msh import memory

memory.pause_collector()

import django  # noqa: E402
from django.core.checks import ERROR, run_checks  # noqa: E402
from django.core.exceptions import ImproperlyConfigured  # noqa: E402

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "msh.settings")

django.setup(set_prefix=False)

from msh.api.framework.slashes import EncodedSlashes  # noqa: E402  it needs Django set up
from msh.endpoint import EndpointApplication  # noqa: E402
from msh.web.headers import HeaderCheck, Utf8Handler  # noqa: E402

application = HeaderCheck(EndpointApplication(EncodedSlashes(Utf8Handler())))

_errors = [message for message in run_checks() if message.level >= ERROR]
if _errors:
    raise ImproperlyConfigured("\n".join(str(message) for message in _errors))

memory.freeze()
