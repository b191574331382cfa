"""`manage.py send --tpa ID --service S --action A FILE…`: submit one message."""

import mimetypes
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from msh.flows.sending.submit import SubmitRefused, submit
from msh.management.cli import MshCommand
from msh.protocol.message import Payload
from msh.protocol.vocabulary import DeliverySemantics
from partners.models import Agreement


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
        try:
            message = submit(
                self._agreement(options["tpa"], options["partner"]),
                options["service"],
                options["action"],
                [_payload(path) for path in options["files"]],
                message_id=options["message_id"],
                conversation_id=options["conversation_id"],
                semantics=semantics,
            )
        except SubmitRefused as refused:
            raise CommandError(str(refused)) from None
        answer = {"message_id": message.message_id}
        self.answer(answer, message.message_id, as_json=options["json"])

    def _agreement(self, tpa_id: str, partner: str | None) -> Agreement:
        found = Agreement.objects.filter(tpa_id=tpa_id).select_related("partner")
        if partner:
            found = found.filter(partner=self.partner(partner))
        agreements = list(found)
        if not agreements:
            raise CommandError(f"No agreement with TPAId {tpa_id!r}.")
        if len(agreements) > 1:
            names = ", ".join(agreement.partner.name for agreement in agreements)
            raise CommandError(f"TPAId {tpa_id!r} is used by {names}: add --partner NAME.")
        return agreements[0]


def _payload(path: Path) -> Payload:
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise CommandError(f"{path} cannot be read: {problem.strerror}.") from None
    content_type, _ = mimetypes.guess_type(path.name)
    return Payload(content, content_type or "application/octet-stream", label=path.name)
