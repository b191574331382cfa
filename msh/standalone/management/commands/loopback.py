"""`manage.py loopback`: a test partner that is this MSH itself."""

import getpass
from argparse import ArgumentParser

from django.core.management.base import CommandError

from msh.flows.operations import loopback
from msh.management.cli import MshCommand
from msh.store.history import Actor
from partners.setup import SetupRefused


class Command(MshCommand):
    help = (
        "Add a test partner that is this MSH itself: what is sent to it comes back as received"
        f" from {loopback.BACK}, and is acknowledged."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--address",
            default="",
            help="our endpoint as our own workers reach it (default: MSH_URI)",
        )

    def handle(self, *args: object, address: str, **options: object) -> None:
        try:
            report = loopback.make(Actor(getpass.getuser(), "manage.py loopback"), address)
        except SetupRefused as refused:
            raise CommandError(str(refused)) from None
        under = f"--partner {loopback.OUT} --tpa {loopback.TPA_ID}"
        tried = f"manage.py send {under} --service Orders --action New order.xml"
        self.answer(report.as_json(), f"{report}\nTry: {tried}")
