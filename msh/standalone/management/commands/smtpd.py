"""`manage.py smtpd`: take partners' messages by mail."""

import asyncio
import ssl
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from msh.certificates import ServerCertificate
from msh.management.cli import MshCommand
from msh.smtpd import Listening, serve


class Command(MshCommand):
    help = "Receive messages, Acknowledgements and Errors by mail, until Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
        parser.add_argument("--port", type=int, default=2525, help="port to listen on (2525)")
        parser.add_argument(
            "--fd", type=int, help="number of an open socket to serve, which has this host and port"
        )
        parser.add_argument("--cert", type=Path, help="PEM file of a certificate, for STARTTLS")
        parser.add_argument("--key", type=Path, help="PEM file of its key, if separate")

    def handle(self, *args: object, host: str, port: int, **options: Any) -> None:
        tls = _tls(options["cert"], options["key"])
        listening = Listening(host, port, tls, options["fd"])
        try:
            asyncio.run(serve(listening, lambda bound: self._say(host, bound)))
        except OSError as problem:
            raise CommandError(f"{host}:{port} cannot be opened: {problem.strerror}.") from None

    def _say(self, host: str, port: int) -> None:
        answer = {"ready": True, "host": host, "port": port}
        self.answer(answer, f"Receiving mail on {host}:{port}. Ctrl-C stops it.")
        self.stdout.flush()


def _tls(cert: Path | None, key: Path | None) -> ServerCertificate | None:
    if cert is None:
        return None
    try:
        return ServerCertificate(cert, key)
    except (OSError, ssl.SSLError) as problem:
        raise CommandError(f"{cert} cannot be used as a certificate: {problem}.") from None
