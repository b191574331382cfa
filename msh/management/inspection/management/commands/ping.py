"""`manage.py ping NAME`: does the partner's MSH answer?"""

from argparse import ArgumentParser

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.receiving import questions
from msh.management.cli import NameCommand


class Command(NameCommand):
    help = "Send a Ping to a partner's MSH and wait at most 60 s for its Pong."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--agreement", default="", metavar="CPAID", help="default: the first")

    def handle(self, *args: object, name: str, agreement: str, **options: object) -> None:
        try:
            said = questions.ping(self.partner(name), tpa_id=agreement)
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        seconds = round(said.seconds, 3)
        answer = {"partner": name, "answer": said.answer, "seconds": seconds, "detail": said.detail}
        text = f"{name}: {said.answer} after {seconds} s"
        self.answer(answer, f"{text}: {said.detail}" if said.detail else text)
        if not said.is_answer:
            raise CommandError(f"{name} has not answered the Ping.")
