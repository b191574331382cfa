"""`manage.py setup FILE.json`: partners, agreements, webhooks and alert recipients."""

import getpass
import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management.base import CommandError

from msh.alerts.flows.recipients import take_recipient
from msh.alerts.models import AlertRecipient
from msh.flows.operations import configure
from msh.flows.operations.configure_webhooks import take_webhook
from msh.management.cli import MshCommand
from msh.models import Webhook
from msh.store.history import Actor
from partners.setup import SetupRefused

SECTIONS = {
    "webhooks": configure.Section(take_webhook, Webhook),
    "recipients": configure.Section(take_recipient, AlertRecipient),
}


class Command(MshCommand):
    help = (
        "Add and update partners, agreements, webhooks and alert recipients from a JSON document."
        " Never removes any."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", type=Path, metavar="FILE.json")

    def handle(self, *args: object, file: Path, **options: object) -> None:
        try:
            actor = Actor(getpass.getuser(), f"manage.py setup {file.name}")
            sections = dict(SECTIONS)
            if not apps.is_installed("msh.alerts"):
                del sections["recipients"]
            report = configure.apply(_document(file), actor, sections=sections)
        except SetupRefused as refused:
            raise CommandError(f"{file} was not applied:\n{refused}") from None
        self.answer(report.as_json(), str(report))


def _document(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except OSError as problem:
        raise CommandError(f"{file} cannot be read: {problem.strerror}.") from None
    except ValueError as problem:
        raise CommandError(f"{file} is not JSON: {problem}.") from None
