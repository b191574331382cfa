"""Who comes in through the REST API: applications and Spark jobs."""

import secrets

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from partners.models import digest_of


class Scope(models.TextChoices):
    SEND = "send", "submit messages"
    READ = "read", "read messages, their history and the feed"
    READ_PAYLOAD = "read_payload", "read payloads"
    CONSUME = "consume", "take messages as a pull consumer, and settle them"
    OPERATE = "operate", "the console's verbs, as far as its user may use them"


class ApiToken(models.Model):
    """One token, known to us by its SHA-256 only. What is done with it, its user did."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    name = models.SlugField(max_length=63, unique=True, help_text="Who holds it.")
    sha256 = models.CharField("SHA-256", max_length=64, unique=True, editable=False)
    scopes = ArrayField(models.CharField(max_length=12, choices=Scope.choices))
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "API token"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def generate(self) -> str:
        """Give this row a new secret and return it; it cannot be read again."""
        secret = secrets.token_urlsafe(32)
        self.sha256 = digest_of(secret)
        return secret
