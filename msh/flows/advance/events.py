"""Events to the From-Party's application, from due to told."""

from datetime import timedelta

from django.db.models import Exists, F, OuterRef
from django.db.models.functions import Now

from msh.models import PartyEvent


def due_events(limit: int) -> list[int]:
    """The events to be told now, the oldest first, and none before an earlier one of its
    message."""
    untold = PartyEvent.objects.filter(delivered_at=None)
    earlier = untold.filter(message=OuterRef("message"), pk__lt=OuterRef("pk"))
    due = untold.filter(~Exists(earlier), due__lte=Now()).order_by("due", "pk")
    return list(due.values_list("pk", flat=True)[:limit])


def lock_event(key: int) -> PartyEvent | None:
    """Lock the event; None if another worker holds it or has told it."""
    untold = PartyEvent.objects.filter(pk=key, delivered_at=None)
    related = untold.select_related("message__link__partner", "message__agreement")
    return related.select_for_update(skip_locked=True, no_key=True, of=("self",)).first()


def event_claimed(event: PartyEvent, lease: timedelta) -> None:
    """It is being told; when the lease is over it is due again."""
    PartyEvent.objects.filter(pk=event.pk).update(due=Now() + lease)


def event_told(event: PartyEvent) -> None:
    PartyEvent.objects.filter(pk=event.pk).update(delivered_at=Now(), tries=F("tries") + 1)


def event_failed(event: PartyEvent, retry_in: timedelta) -> None:
    PartyEvent.objects.filter(pk=event.pk).update(due=Now() + retry_in, tries=F("tries") + 1)
