"""`manage.py consumer NAME --path …|--url …|--pull`: which messages go where."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.delivery.consumers import ConsumerRefused, keep
from msh.management.cli import MshCommand
from msh.models import ConsumerKind
from msh.models.signing import SigningChange

_COUNTS = ("lease", "attempts", "retry_interval")
_TEXTS = ("service_interface", "action", "resolver", "on_failure", "authorization", "signing")


class Command(MshCommand):
    help = "Add or change a consumer. Options that are omitted keep their value or default."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name")
        kind = parser.add_mutually_exclusive_group()
        kind.add_argument("--path", help="in-process: dotted path of the function")
        kind.add_argument("--url", help="HTTP: the URL to POST to")
        kind.add_argument(
            "--pull", action="store_true", help="pull: the application takes and settles messages"
        )
        parser.add_argument("--partner", help="only messages of this partner")
        parser.add_argument("--service-interface", help="only this ServiceInterface")
        parser.add_argument("--action", help="only this Action")
        parser.add_argument("--lease", type=int, help="seconds per attempt")
        parser.add_argument(
            "--attempts", type=int, help="failed attempts before a decision is required"
        )
        parser.add_argument("--retry-interval", type=int, help="seconds between attempts")
        parser.add_argument("--on-failure", choices=["block", "park"])
        parser.add_argument("--resolver", help="dotted path of the resolver function")
        parser.add_argument("--authorization", help="HTTP: the Authorization header")
        parser.add_argument(
            "--signing",
            choices=SigningChange.values,
            help="HTTP: the signature of our requests: by a new secret, which is printed once and"
            " signs beside the one before; by the newest alone; or none",
        )
        parser.add_argument(
            "--history", choices=["on", "off"], help="whether the document history is kept"
        )
        parser.add_argument("--enabled", choices=["on", "off"])

    def handle(self, *args: object, name: str, **options: Any) -> None:
        values = {key: options[key] for key in (*_COUNTS, *_TEXTS) if options[key] is not None}
        for switch in ("history", "enabled"):
            if options[switch]:
                values[switch] = options[switch] == "on"
        if options["partner"]:
            values["partner"] = self.partner(options["partner"])
        try:
            consumer = keep(name, **values, **_place(options))
        except ConsumerRefused as refused:
            raise CommandError(str(refused)) from None
        answer = {"consumer": name, "kind": consumer.kind}
        shown = f"Consumer {name}: {consumer.kind}."
        if consumer.new_secret:
            answer["signing_secret"] = consumer.new_secret
            shown += f" Signing secret, not shown again: {consumer.new_secret}"
        self.answer(answer, shown)


def _place(options: Any) -> dict[str, str]:
    if options["path"]:
        return {"kind": ConsumerKind.IN_PROCESS.value, "path": options["path"], "url": ""}
    if options["url"]:
        return {"kind": ConsumerKind.HTTP.value, "path": "", "url": options["url"]}
    return {"kind": ConsumerKind.PULL.value, "path": "", "url": ""} if options["pull"] else {}
