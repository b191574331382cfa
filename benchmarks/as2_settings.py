"""Django settings of django-pyas2, for the sending and for the receiving side. Read in the virtual
environment of `pyas2.py`, which has nothing of ours."""

import os
from urllib.parse import urlsplit

_database = urlsplit(os.environ["AS2_DATABASE_URL"])
_folder = os.environ["AS2_FOLDER"]

SECRET_KEY = "benchmark" * 6
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "pyas2.urls"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "pyas2",
]
MIDDLEWARE: list[str] = []
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _database.path[1:],
        "USER": _database.username,
        "PASSWORD": _database.password,
        "HOST": _database.hostname,
        "PORT": _database.port,
        "CONN_MAX_AGE": None,
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
MEDIA_ROOT = _folder
PYAS2 = {"MDN_URL": os.environ.get("AS2_MDN_URL", "")}
SILENCED_SYSTEM_CHECKS = ["admin.E403", "admin.E408", "admin.E409", "admin.E410"]
