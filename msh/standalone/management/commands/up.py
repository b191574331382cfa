"""Run one MSH on this machine until Ctrl-C."""

import json
import os
from pathlib import Path
from typing import Any

from django.core.management import BaseCommand, CommandError, CommandParser

from msh.standalone import datafolder
from msh.standalone.embedded import ServerUnavailable
from msh.standalone.running import Running, StandaloneError, run


class Command(BaseCommand):
    help = "Run one MSH: web, worker and beat, and PostgreSQL and Valkey unless their URLs are set."
    requires_system_checks = []  # the settings are complete only when the servers run

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--data",
            metavar="FOLDER",
            default=os.environ.get("MSH_DATA", datafolder.OF_UP),
            help=f"its data folder (MSH_DATA, or {datafolder.OF_UP})",
        )
        parser.add_argument("--port", type=int, default=8000, help="port on 127.0.0.1 (8000)")
        parser.add_argument(
            "--smtp-port", type=int, help="receive mail too, on this port of 127.0.0.1"
        )
        parser.add_argument(
            "--json", action="store_true", help="print a line of JSON when it is ready"
        )

    def handle(self, *args: object, **options: Any) -> None:
        say = self._say_as_json if options["json"] else self._say
        try:
            run(
                Path(options["data"]).resolve(),
                options["port"],
                smtp_port=options["smtp_port"],
                on_ready=say,
                on_wait=self._say_that_it_waits,
            )
        except (ServerUnavailable, StandaloneError) as error:
            raise CommandError(str(error)) from None

    def _say(self, running: Running) -> None:
        log_in = f"log in as {running.user}, password in {running.password_file}"
        if running.new_password:
            log_in = f"log in as {running.user} with password {running.new_password}"
        self.stdout.write(f"Ready: {running.console} ({log_in}). Ctrl-C stops it.")
        self.stdout.flush()

    def _say_that_it_waits(self, line: str) -> None:
        self.stderr.write(line)
        self.stderr.flush()

    def _say_as_json(self, running: Running) -> None:
        report = {
            "ready": True,
            "console": running.console,
            "user": running.user,
            "password_file": running.password_file,
        }
        self.stdout.write(json.dumps(report))
        self.stdout.flush()
