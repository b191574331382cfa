"""Webhooks: which is due, with which event, and how its POST ended."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import F, Max, QuerySet
from django.db.models.functions import Now

from msh.models import PartyEvent, Webhook

WINDOW = 10_000
"""Events that are looked at for the next one: most may be for others."""


def find_due() -> list[int]:
    due = Webhook.objects.filter(enabled=True, due__lte=Now()).order_by("due", "pk")
    return list(due.values_list("pk", flat=True))


def lock_due(key: int) -> Webhook | None:
    """None if another worker has it."""
    due = Webhook.objects.filter(pk=key, enabled=True, due__lte=Now())
    return due.select_for_update(skip_locked=True, no_key=True).first()


def lock(key: int) -> Webhook | None:
    return Webhook.objects.filter(pk=key).select_for_update(no_key=True).first()


def next_event(webhook: Webhook) -> tuple[PartyEvent | None, int]:
    """The next event that it wants, and the position up to which there is no other one."""
    behind = PartyEvent.objects.filter(feed_position__gt=webhook.position)
    window = behind.order_by("feed_position")[:WINDOW]
    last: int | None = window.aggregate(last=Max("feed_position"))["last"]
    if last is None:
        return None, webhook.position
    wanted = _wanted(webhook, behind.filter(feed_position__lte=last))
    related = wanted.select_related("message__link__partner", "message__agreement")
    event = related.defer("message__head").order_by("feed_position").first()
    return (event, webhook.position) if event else (None, last)


def _wanted(webhook: Webhook, events: QuerySet[PartyEvent]) -> QuerySet[PartyEvent]:
    if webhook.kinds:
        events = events.filter(kind__in=webhook.kinds)
    partners = list(webhook.partners.values_list("pk", flat=True))
    return events.filter(message__link__partner__in=partners) if partners else events


def pass_over(webhook: Webhook, position: int) -> None:
    """No event up to this position is wanted."""
    Webhook.objects.filter(pk=webhook.pk).update(position=position)


def claim(webhook: Webhook, lease: timedelta) -> None:
    Webhook.objects.filter(pk=webhook.pk).update(due=Now() + lease)


def mark_taken(webhook: Webhook, position: int) -> None:
    ended: dict[str, Any] = {"position": position, "due": Now(), "tries": 0, "error": ""}
    Webhook.objects.filter(pk=webhook.pk).update(**ended, failing=None)


def mark_failed(webhook: Webhook, partner_id: int, why: str, retry_in: timedelta) -> None:
    Webhook.objects.filter(pk=webhook.pk).update(
        due=Now() + retry_in, tries=F("tries") + 1, error=why, failing=partner_id
    )


def failing(tries: int) -> Mapping[int, str]:
    """What to say of each partner whose event was refused so often, or for so long not answered."""
    found = Webhook.objects.filter(enabled=True, tries__gte=tries, failing__isnull=False)
    rows = found.order_by("name").values_list("failing", "name", "tries", "error")
    return {
        key: f"webhook {name}, {count} attempts failed, the last one: {error}"
        for key, name, count, error in rows
    }
