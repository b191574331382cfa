"""How many messages a minute: counted once from the history, so that no page counts millions."""

from django.db import models


class Traffic(models.Model):
    """One minute, from its beginning. `sent` were acknowledged to us, `received` accepted by us;
    `retries` are copies after a first, `duplicates` copies that came to us and were discarded."""

    minute = models.DateTimeField(primary_key=True)
    sent = models.PositiveIntegerField(default=0)
    received = models.PositiveIntegerField(default=0)
    retries = models.PositiveIntegerField(default=0)
    duplicates = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["minute"]

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M}: {self.sent} out, {self.received} in"
