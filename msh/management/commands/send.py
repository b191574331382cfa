"""`manage.py send --tpa ID --service S --action A FILE…`: submit one message."""

import mimetypes
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations.change_conversation import find_agreement
from msh.flows.sending.prepare import SubmitRefused
from msh.flows.sending.submit import submit
from msh.management.cli import MshCommand
from msh.protocol.message import Payload
from msh.protocol.vocabulary import DeliverySemantics


class Command(MshCommand):
    help = "Submit a message with these files as its payloads, and print its MessageId."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--tpa", required=True, help="TPAId of the agreement to send under")
        parser.add_argument("--partner", help="the partner, if several partners share the TPAId")
        parser.add_argument("--service", required=True, help="ServiceInterface")
        parser.add_argument("--action", required=True, help="Action")
        parser.add_argument(
            "--best-effort", action="store_true", help="send it as BestEffort, without Ack"
        )
        parser.add_argument(
            "--message-id",
            help="MessageId of your own; the same id with the same content is stored only once",
        )
        parser.add_argument("--conversation-id", help="default: the MessageId")
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")

    def handle(self, *args: object, **options: Any) -> None:
        semantics = DeliverySemantics.BEST_EFFORT if options["best_effort"] else None
        partner = self.partner(options["partner"]) if options["partner"] else None
        try:
            message = submit(
                find_agreement(options["tpa"], partner),
                options["service"],
                options["action"],
                [_payload(path) for path in options["files"]],
                message_id=options["message_id"],
                conversation_id=options["conversation_id"],
                semantics=semantics,
            )
        except (NotPossible, SubmitRefused) as refused:
            raise CommandError(str(refused)) from None
        answer = {"message_id": message.message_id}
        self.answer(answer, message.message_id)


def _payload(path: Path) -> Payload:
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise CommandError(f"{path} cannot be read: {problem.strerror}.") from None
    content_type, _ = mimetypes.guess_type(path.name)
    return Payload(content, content_type or "application/octet-stream", label=path.name)
