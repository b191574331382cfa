"""What our POSTs to an application are signed by."""

from django.db import models

from msh.transport import signature
from partners import secrecy


class SigningChange(models.TextChoices):
    NEW = "new", "sign by a new secret; the one before signs too until you end it"
    END_OLD = "end-old", "sign by the newest secret alone"
    STOP = "stop", "do not sign"


class Signed(models.Model):
    """A destination of POSTs. One secret signs them, or two while the receiver changes to the
    newer one."""

    signing_secrets = models.TextField(blank=True, default="", editable=False)
    """The newest first, separated by a blank, encrypted."""

    new_secret = ""
    """The secret that `change_signing` has made. It cannot be read again."""

    class Meta:
        abstract = True

    def signing(self) -> tuple[str, ...]:
        """Raises SecretUnreadableError."""
        return tuple(secrecy.decrypt(self.signing_secrets).split()) if self.signing_secrets else ()

    def change_signing(self, change: str) -> None:
        """Raises SecretUnreadableError."""
        kept: tuple[str, ...] = ()
        if change != SigningChange.STOP:
            kept = self.signing()[: signature.KEYS - 1]
        if change == SigningChange.NEW:
            self.new_secret = signature.new_secret()
            kept = (self.new_secret, *kept)
        self.signing_secrets = secrecy.encrypt(" ".join(kept)) if kept else ""

    def signing_text(self) -> str:
        try:
            count = len(self.signing())
        except secrecy.SecretUnreadableError as problem:
            return str(problem)
        return ("not signed", "signed by one secret", "signed by two secrets")[count]
