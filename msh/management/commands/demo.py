"""`manage.py demo`: two MSHs, a bad link between them, and a verdict."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from demo.options import add_arguments, options_of
from demo.run import run


class Command(BaseCommand):
    help = "Exchange documents between two MSHs over a bad link and judge what became of them."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            chosen = options_of(options)
        except ValueError as error:
            raise CommandError(str(error)) from error
        sys.exit(run(chosen, Console()))
