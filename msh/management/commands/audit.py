"""`manage.py audit`: orders by the thousand from Spark over a bad link, and a verdict."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from demo.audit.options import add_arguments, options_of
from demo.audit.run import run


class Command(BaseCommand):
    help = "Load orders by Spark, deliver them over a bad link, extract and reconcile them."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            chosen = options_of(options)
        except ValueError as error:
            raise CommandError(str(error)) from error
        sys.exit(run(chosen, Console()))
