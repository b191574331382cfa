"""Make the database ready for the processes of this version."""

import os
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import BaseCommand, CommandParser, call_command

from msh.flows import consumers


class Command(BaseCommand):
    help = (
        "Migrate; keep the consumer 'default' in step with MSH_CONSUMER; and with "
        "DJANGO_SUPERUSER_PASSWORD set, add the operator 'admin' unless there is one. Safe to "
        "repeat."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--data", metavar="FOLDER", help="the folder of the MSH")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        if settings.MSH_CONSUMER:
            consumers.keep_default(settings.MSH_CONSUMER)
        self._ensure_operator(os.environ.get("DJANGO_SUPERUSER_PASSWORD"))

    def _ensure_operator(self, password: str | None) -> None:
        users = get_user_model().objects
        if password and not users.filter(username="admin").exists():
            users.create_superuser("admin", password=password)
