"""`manage.py certificates`: those of signatures and TLS, ours and partners'."""

from dataclasses import asdict

from django.core.management.base import CommandError

from msh.flows.operations.certificates import Listed, certificates
from msh.management.cli import MshCommand, Row
from msh.pem import KeyUnusable
from msh.transport.tls import TlsUnusable

COLUMNS = ("whose", "until", "used_by", "subject", "issuer", "serial", "sha256")


class Command(MshCommand):
    help = (
        "List the certificates of signatures and TLS, ours and those of partners: until when they"
        " are valid, which agreements use them, subject, issuer, serial number, SHA-256."
    )

    def handle(self, *args: object, **options: object) -> None:
        try:
            found = certificates()
        except (KeyUnusable, TlsUnusable) as problem:
            raise CommandError(str(problem)) from None
        self.answer_rows([asdict(one) if self.as_json else _shown(one) for one in found], COLUMNS)


def _shown(one: Listed) -> Row:
    until = f"{one.until:%Y-%m-%d}"
    return {**asdict(one), "until": until, "used_by": ", ".join(one.used_by)}
