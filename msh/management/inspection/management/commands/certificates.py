"""`manage.py certificates`: those of signatures, encryption and TLS, ours and partners'."""

from django.core.management.base import CommandError

from msh.flows.operations.certificates import Listed, certificates
from msh.management.cli import MshCommand, Row

COLUMNS = ("whose", "until", "uses", "used_by", "subject", "issuer", "serial", "sha256")


class Command(MshCommand):
    help = (
        "List the certificates of signatures, encryption and TLS, ours and those of partners: until"
        " when they are valid, what they are for, which agreements use them, subject, issuer,"
        " serial number, SHA-256."
    )

    def handle(self, *args: object, **options: object) -> None:
        found, problems = certificates()
        if problems:
            raise CommandError("; ".join(problems))
        self.answer_rows([_in_json(one) if self.as_json else _shown(one) for one in found], COLUMNS)


def _in_json(one: Listed) -> Row:
    return {name: getattr(one, name) for name in (*COLUMNS, "valid_from")}


def _shown(one: Listed) -> Row:
    until = f"{one.until:%Y-%m-%d}"
    lists = {name: ", ".join(getattr(one, name)) for name in ("uses", "used_by")}
    return {**_in_json(one), "until": until, **lists}
