"""How one user sees the console."""

from zoneinfo import available_timezones

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models


def check_zone(name: str) -> None:
    if name not in available_timezones():
        raise ValidationError(f"{name} is not a time zone.", code="zone")


class Preference(models.Model):
    """`time_zone`: in which times are shown and read; empty: that of the installation."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="preference",
    )
    time_zone = models.CharField(max_length=64, blank=True, default="", validators=[check_zone])

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.user}: {self.time_zone}"
