"""`manage.py reset-second-factor NAME --reason TEXT`: for who has lost phone and recovery codes."""

from argparse import ArgumentParser

from django.apps import apps
from django.contrib.auth.models import User
from django.core.management.base import CommandError

from msh.management.actions import actor_of, add_reason
from msh.management.cli import MshCommand
from msh.store.operations.settings_log import record_access


class Command(MshCommand):
    help = "Remove the second factor of a user, who sets up a new one at the next log-in."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", help="the user")
        add_reason(parser)

    def handle(self, *args: object, name: str, **options: object) -> None:
        if not apps.is_installed("allauth.mfa"):
            raise CommandError("There is no second factor: MSH_SECOND_FACTOR is not set.")
        from msh.sign_on import second_factor  # noqa: PLC0415  only where it is installed

        user = User.objects.filter(username=name).first()
        if user is None or not second_factor.remove(user):
            raise CommandError(f"{name} has no second factor.")
        record_access(name, "second factor: removed by command", "", actor_of(options))
        text = f"The second factor of {name} is removed."
        self.answer({"user": name, "removed": True}, text)
