"""The web process: `granian --interface wsgi msh.wsgi:application`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "msh.settings")

application = get_wsgi_application()
