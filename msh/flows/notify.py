"""Events to the From-Party's application: what became of its messages (D9).

MSH_FROM_PARTY_HANDLER, a dotted path, is called with the event in the transaction that marks it
told: at least once for effects outside the database, exactly once for those inside. Without a
handler the events wait.
"""

import logging
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from msh.faults import CrashPoint, reach
from msh.flows import advance
from msh.models import PartyEvent

logger = logging.getLogger(__name__)

BATCH = 50
RETRY_IN = timedelta(seconds=30)


def notify() -> int:
    """Tell the events that are due, the oldest first; how many were told."""
    if not settings.MSH_FROM_PARTY_HANDLER:
        return 0
    handle = import_string(settings.MSH_FROM_PARTY_HANDLER)
    told = 0
    for key in advance.due_events(BATCH):
        with transaction.atomic():
            event = advance.lock_event(key)
            told += event is not None and _tell(event, handle)
            reach(CrashPoint.NOTIFY_BEFORE_COMMIT)
        reach(CrashPoint.NOTIFY_AFTER_COMMIT)
    return told


def _tell(event: PartyEvent, handle: "advance.Handler") -> bool:
    try:
        with transaction.atomic():
            handle(event)
    except Exception as error:  # noqa: BLE001  an application may raise anything
        logger.warning("handler failed on event %s: %s", event.event_id, error)
        advance.event_failed(event, RETRY_IN)
        return False
    advance.event_told(event)
    return True
