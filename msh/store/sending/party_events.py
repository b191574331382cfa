"""Events to the From-Party's application, from due to delivered: an outbox."""

from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef
from django.db.models.functions import Now

from msh.models import PartyEvent
from msh.protocol.kinds import PartyEventKind
from msh.store.engine import Call, Order, Write

# That a message is late is said once: a copy that spends no retry would say it again.
INSERT = Write(
    """
    INSERT INTO msh_partyevent (event_id, message_id, kind, detail, code, at, due)
    SELECT gen_random_uuid(), %(key)s, %(kind)s::text, %(detail)s, %(code)s, %(at)s, %(at)s
    WHERE %(kind)s::text <> 'delayed' OR NOT EXISTS (
        SELECT FROM msh_partyevent WHERE message_id = %(key)s AND kind = 'delayed')
""",
    order=Order.EVENT,
    many=Write(
        """
    INSERT INTO msh_partyevent (event_id, message_id, kind, detail, code, at, due)
    SELECT gen_random_uuid(), key, kind, detail, code, at, at
    FROM json_to_recordset(%(rows)s::json)
         AS new (key bigint, kind text, detail text, code text, at timestamptz)
    WHERE kind <> 'delayed' OR NOT EXISTS (
        SELECT FROM msh_partyevent WHERE message_id = new.key AND kind = 'delayed')
""",
        order=Order.EVENT,
    ),
)


# A partner may repeat what it says as often as it likes.
INSERT_ONCE = Write(
    """
    INSERT INTO msh_partyevent (event_id, message_id, kind, detail, code, at, due)
    SELECT gen_random_uuid(), %(key)s, %(kind)s::varchar, %(detail)s::text, %(code)s, %(at)s, %(at)s
    WHERE NOT EXISTS (
        SELECT FROM msh_partyevent
        WHERE message_id = %(key)s AND kind = %(kind)s::varchar AND detail = %(detail)s::text)
""",
    order=Order.EVENT,
)
_ONCE = (PartyEventKind.WARNING, PartyEventKind.ERROR)


def insert_event(key: int, kind: str, detail: str, at: datetime, *, code: str = "") -> Call[None]:
    insert = INSERT_ONCE if kind in _ONCE else INSERT
    return insert(key=key, kind=kind, detail=detail, code=code, at=at)


def find_due(limit: int) -> list[int]:
    """Return the events to be delivered now, the oldest first, and none before an earlier one of
    its message."""
    open_events = PartyEvent.objects.filter(delivered_at=None)
    earlier = open_events.filter(message=OuterRef("message"), pk__lt=OuterRef("pk"))
    due = open_events.filter(~Exists(earlier), due__lte=Now()).order_by("due", "pk")
    return list(due.values_list("pk", flat=True)[:limit])


def lock_event(key: int, *, wait: bool = False) -> PartyEvent | None:
    """Lock the event; None if it was delivered, or without `wait` if another session holds it."""
    open_events = PartyEvent.objects.filter(pk=key, delivered_at=None)
    related = open_events.select_related("message__link__partner", "message__agreement")
    return related.select_for_update(skip_locked=not wait, no_key=True, of=("self",)).first()


def claim_event(event: PartyEvent, lease: timedelta) -> None:
    PartyEvent.objects.filter(pk=event.pk).update(due=Now() + lease)


def mark_delivered(event: PartyEvent) -> None:
    PartyEvent.objects.filter(pk=event.pk).update(delivered_at=Now(), tries=F("tries") + 1)


def mark_failed(event: PartyEvent, retry_in: timedelta) -> None:
    PartyEvent.objects.filter(pk=event.pk).update(due=Now() + retry_in, tries=F("tries") + 1)
