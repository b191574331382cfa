"""Events to the From-Party's application, from due to told."""

from collections.abc import Callable
from datetime import timedelta

from django.db.models import F
from django.db.models.functions import Now

from msh.models import PartyEvent

Handler = Callable[[PartyEvent], object]


def due_events(limit: int) -> list[int]:
    """The events to be told now, the oldest first."""
    due = PartyEvent.objects.filter(delivered_at=None, due__lte=Now()).order_by("due", "pk")
    return list(due.values_list("pk", flat=True)[:limit])


def lock_event(key: int) -> PartyEvent | None:
    """Lock the event; None if another worker holds it or has told it."""
    untold = PartyEvent.objects.filter(pk=key, delivered_at=None)
    return untold.select_for_update(skip_locked=True, no_key=True, of=("self",)).first()


def event_told(event: PartyEvent) -> None:
    PartyEvent.objects.filter(pk=event.pk).update(delivered_at=Now(), tries=F("tries") + 1)


def event_failed(event: PartyEvent, retry_in: timedelta) -> None:
    PartyEvent.objects.filter(pk=event.pk).update(due=Now() + retry_in, tries=F("tries") + 1)
