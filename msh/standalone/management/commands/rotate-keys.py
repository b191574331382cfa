"""`manage.py rotate-keys`: kept secrets under the first of MSH_FERNET_KEYS."""

from dataclasses import asdict

from django.core.management.base import CommandError

from msh.flows.operations.rotate_keys import rotate_keys
from msh.management.cli import MshCommand


class Command(MshCommand):
    help = (
        "Encrypt the stored credentials with the first key of MSH_FERNET_KEYS. Afterwards the"
        " other keys can be removed. Can be repeated."
    )

    def handle(self, *args: object, **options: object) -> None:
        done = rotate_keys()
        if done.unreadable:
            raise CommandError(
                f"No key of MSH_FERNET_KEYS decrypts the credentials of"
                f" {', '.join(done.unreadable)}: add the key, or enter them again. Keep all keys."
            )
        text = f"{done.rotated} encrypted with the first key, {done.current} already were."
        self.answer(asdict(done), text)
