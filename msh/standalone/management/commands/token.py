"""`manage.py token NAME --scopes send,read`: a token for the REST API."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError
from django.utils import timezone

from msh.flows.operations.tokens import TokenRefused, make, revoke
from msh.management.cli import MshCommand
from msh.models import ApiToken, Scope

COLUMNS = (
    *("name", "user", "scopes", "consumers", "partners", "created", "expires", "last_used"),
    "networks",
)
LONGEST = 36_500  # days


def _days(text: str) -> timedelta:
    """Raises ValueError, for argparse."""
    days = int(text)
    if not 1 <= days <= LONGEST:
        raise ValueError
    return timedelta(days=days)


class Command(MshCommand):
    help = "Create a token for the REST API and print its secret, which is shown only once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "name", nargs="?", help="name of the token; without it, list all tokens"
        )
        parser.add_argument(
            "--scopes", help=f"separated by commas, of {', '.join(Scope.values)} (send,read)"
        )
        parser.add_argument(
            "--consumers",
            help="the consumers whose messages it may take, separated by commas (scope consume)",
        )
        parser.add_argument(
            "--partners",
            help="the partners that it is for, separated by commas: nothing of others exists for it"
            " (default: all)",
        )
        parser.add_argument(
            "--user",
            help="the user the token acts for, whose permissions limit it (default: a new user with"
            " the token's name and the permissions that the scopes need)",
        )
        parser.add_argument(
            "--days",
            type=_days,
            metavar="N",
            help=("number of days after which it expires (default: never)"),
        )
        parser.add_argument(
            "--networks", default="", help="accepted from these networks only, separated by commas"
        )
        parser.add_argument("--revoke", action="store_true", help="revoke the token")

    def handle(self, *args: object, name: str | None, **options: object) -> None:
        if name is None:
            self._list()
        elif options["revoke"]:
            self._revoke(name)
        else:
            self._make(name, options)

    def _list(self) -> None:
        tokens = ApiToken.objects.select_related("user").prefetch_related("consumers", "partners")
        rows = [
            {
                "name": token.name,
                "user": token.user.get_username(),
                "scopes": ",".join(token.scopes),
                "consumers": ",".join(consumer.name for consumer in token.consumers.all()),
                "partners": ",".join(partner.name for partner in token.partners.all()),
                "created": token.created,
                "expires": token.expires,
                "last_used": token.last_used,
                "networks": token.networks,
            }
            for token in tokens
        ]
        self.answer_rows(rows, COLUMNS)

    def _revoke(self, name: str) -> None:
        try:
            revoke(name)
        except TokenRefused as refused:
            raise CommandError(str(refused)) from None
        self.answer({"token": name, "revoked": True}, f"Token {name} is revoked.")

    def _make(self, name: str, options: dict[str, Any]) -> None:
        scopes = (options["scopes"] or f"{Scope.SEND},{Scope.READ}").split(",")
        consumers = options["consumers"].split(",") if options["consumers"] else []
        try:
            token, secret = make(
                name,
                scopes,
                self._user(options["user"]),
                consumers,
                partners=options["partners"].split(",") if options["partners"] else [],
                expires=timezone.now() + options["days"] if options["days"] else None,
                networks=options["networks"],
            )
        except TokenRefused as refused:
            raise CommandError(str(refused)) from None
        answer: dict[str, object] = {"token": name, "scopes": token.scopes, "secret": secret}
        answer["expires"] = token.expires
        self.answer(answer, secret)

    def _user(self, name: str | None) -> Any:
        if name is None:
            return None
        user = get_user_model().objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"No user {name!r}. Create it in the console.")
        return user
