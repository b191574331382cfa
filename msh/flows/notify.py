"""Events to the From-Party's application: what became of its messages (D9).

MSH_FROM_PARTY_HANDLER is a dotted path, called with the event in the transaction that marks it
told; or an address, to which the event is POSTed as JSON. Each event is told at least once, with
its event id, and after the earlier ones of the same message. Without a handler they wait, as long
as their message is kept.
"""

import json
import logging
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from msh.faults import CrashPoint, reach
from msh.flows import advance
from msh.flows.dispatch import Dispatch, allow_idle
from msh.flows.nudge import Nudge
from msh.models import PartyEvent
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.carrier import Finished
from msh.transport.job import CONSUMER_CRASH_POINTS, Job

logger = logging.getLogger(__name__)

BATCH = 50
APPLICATION = 0
"""In place of a partner, where POSTs are counted."""
RETRY_IN = timedelta(seconds=30)
POST_DEADLINE = 30.0  # seconds
LEASE = timedelta(seconds=40)
GRACE = 5.0
"""Seconds after which a claimed event is not POSTed any more."""
_STALE = AttemptResult(AttemptOutcome.FAILED, detail="not sent: this process was stopped")


@dataclass(frozen=True, slots=True)
class Told:
    """Which event a job carries."""

    key: int


class Notices(Dispatch):
    """The loop that tells."""

    kind = Nudge.NOTIFY
    threads = 1

    def look(self) -> bool:
        handler = settings.MSH_FROM_PARTY_HANDLER
        if not handler or self.calls:
            return False
        if is_address(handler):  # what is claimed has to be written to its socket at once
            jobs = _claim(advance.due_events(self.carrier.free(APPLICATION)), handler)
            self.carrier.submit(jobs)
            return bool(jobs)
        keys = advance.due_events(BATCH)
        if keys:
            self.call("events", tell, keys, handler)
        return bool(keys)

    def record(self, ended: list[Finished]) -> None:
        with transaction.atomic():
            for one in ended:
                _record(one.job.key, one.result or _STALE)
            reach(CrashPoint.NOTIFY_BEFORE_COMMIT)
        reach(CrashPoint.NOTIFY_AFTER_COMMIT)


def is_address(handler: str) -> bool:
    return handler.startswith(("http://", "https://"))


def tell(keys: list[int], handler: str) -> int:
    """Call the handler with each of these events, in order; how many were told. Each call may take
    as long as LEASE."""
    return sum(_tell(key, handler) for key in keys)


def _tell(key: int, handler: str) -> bool:
    try:
        with transaction.atomic():
            event = advance.lock_event(key)
            if event is None:
                return False
            allow_idle(LEASE)
            import_string(handler)(event)
            advance.event_told(event)
            reach(CrashPoint.NOTIFY_BEFORE_COMMIT)
    except Exception as error:  # noqa: BLE001  an application may raise anything
        _note_failure(key, f"{type(error).__name__}: {error}")
        return False
    reach(CrashPoint.NOTIFY_AFTER_COMMIT)
    return True


def _note_failure(key: int, why: str) -> None:
    """In a transaction of its own: the handler may have spoilt the one it was called in, or lost
    its connection."""
    with transaction.atomic():
        event = advance.lock_event(key)
        if event is not None:
            _failed(event, why)


def _claim(keys: list[int], address: str) -> list[Job]:
    """Jobs for these events. What is not recorded within the lease is told again."""
    jobs = []
    with transaction.atomic():
        for key in keys:
            event = advance.lock_event(key)
            if event is not None:
                advance.event_claimed(event, LEASE)
                jobs.append(_job(event, address))
    return jobs


def _job(event: PartyEvent, address: str) -> Job:
    return Job(
        key=Told(event.pk),
        partner_id=APPLICATION,
        url=address,
        content_type="application/json",
        body=json.dumps(document_of(event)).encode(),
        authorization=settings.MSH_FROM_PARTY_AUTHORIZATION,
        deadline=min(settings.MSH_HTTP_DEADLINE, POST_DEADLINE),
        not_after=time.monotonic() + GRACE,
        crash_points=CONSUMER_CRASH_POINTS,
        headers=(("Idempotency-Key", str(event.event_id)),),
    )


def document_of(event: PartyEvent) -> dict[str, Any]:
    """What is POSTed."""
    message = event.message
    return {
        "event_id": str(event.event_id),
        "kind": event.kind,
        "at": event.at.isoformat(),
        "detail": event.detail,
        "message_id": message.message_id,
        "conversation_id": message.conversation_id,
        "ref_to_message_id": message.ref_to_message_id,
        "service_interface": message.service_interface,
        "action": message.action,
        "partner": message.link.partner.name,
        "tpa_id": message.agreement.tpa_id,
    }


def _record(told: Any, result: AttemptResult) -> None:
    event = advance.lock_event(told.key)
    if event is None:
        return
    if result.outcome is AttemptOutcome.CARRIED:
        advance.event_told(event)
    else:
        _failed(event, result.detail)


def _failed(event: PartyEvent, why: str) -> None:
    logger.warning("event %s of %s not told: %s", event.event_id, event.message, why)
    advance.event_failed(event, RETRY_IN)
