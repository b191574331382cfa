"""Events to the From-Party's application: what became of its messages (D9).

MSH_FROM_PARTY_HANDLER is a dotted path, called with the event in the transaction that marks it
notified; or an address, to which the event is POSTed as JSON. Webhooks are served besides
(`webhooks.py`). Each event is sent at least once,
with its event id, and after the earlier ones of the same message. Without a handler they wait, as
long as their message is kept.
"""

import json
import logging
import time
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from msh.faults import CrashPoint, reach
from msh.flows import application
from msh.flows.application_loop import ApplicationLoop
from msh.flows.sending import webhooks
from msh.flows.sending.webhooks import PostedToWebhook, document_of
from msh.flows.wake_up import WakeUp
from msh.models import PartyEvent, callables
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store import capacity
from msh.store.sending import party_events
from msh.store.sending.isolation import describe
from msh.transport import signature
from msh.transport.job import CONSUMER_CRASH_POINTS, Job

logger = logging.getLogger(__name__)

BATCH = 50
"""Events that one poll takes: what follows has its turn with the next."""
APPLICATION = 0
"""In place of a partner, where POSTs are counted."""
RETRY_IN = timedelta(seconds=30)
POST_DEADLINE = 30.0  # seconds
LEASE = timedelta(seconds=40)
"""Longer than GRACE and POST_DEADLINE together, so that no event is under way twice."""
GRACE = 5.0
"""Seconds after which a claimed event is not POSTed any more."""


@dataclass(frozen=True, slots=True)
class PostedEvent:
    """Which event a job transmits."""

    key: int


class NotificationLoop(ApplicationLoop):
    """The loop that notifies the From-Party's application."""

    kind = WakeUp.NOTIFY
    threads = 1

    def poll(self) -> bool:
        jobs = list(webhooks.claim())
        self.carrier.submit(jobs)
        return self._poll_handler() or bool(jobs)

    def _poll_handler(self) -> bool:
        handler = settings.MSH_FROM_PARTY_HANDLER
        if not handler or self.calls:
            return False
        if is_address(handler):  # what is claimed has to be written to its socket at once
            jobs = _claim(party_events.find_due(self.carrier.free(APPLICATION)), handler)
            self.carrier.submit(jobs)
            return bool(jobs)
        keys = party_events.find_due(BATCH)
        if keys:
            self.call("events", notify, keys, handler)
        return bool(keys)

    def record(self, key: PostedEvent | PostedToWebhook, result: AttemptResult) -> None:
        with transaction.atomic():
            if isinstance(key, PostedToWebhook):
                webhooks.record(key, result)
            else:
                _record(key, result)
            reach(CrashPoint.NOTIFY_BEFORE_COMMIT)
        reach(CrashPoint.NOTIFY_AFTER_COMMIT)

    def give_up(self, key: PostedEvent | PostedToWebhook, error: str) -> None:
        """Its lease passes, and it is sent again."""
        logger.error("%s: the result of this POST cannot be recorded: %s", key, error)


def is_address(handler: str) -> bool:
    return handler.startswith(("http://", "https://"))


def notify(keys: list[int], handler: str) -> int:
    """Call the handler with each of these events, in order; how many it took. Each call may take
    as long as LEASE."""
    return sum(_notify_alone(key, handler) for key in keys)


def _notify_alone(key: int, handler: str) -> bool:
    try:
        return _notify(key, handler)
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.exception("event %d can be neither handled nor postponed", key)
        return False


def _notify(key: int, handler: str) -> bool:
    try:
        with transaction.atomic():
            event = party_events.lock_event(key)
            if event is None:
                return False
            application.allow_idle(LEASE)
            callables.load(handler)(event)
            application.require_commit()
            party_events.mark_delivered(event)
            reach(CrashPoint.NOTIFY_BEFORE_COMMIT)
    except application.ERRORS as error:
        _note_failure(key, error)
        return False
    reach(CrashPoint.NOTIFY_AFTER_COMMIT)
    return True


def _note_failure(key: int, error: BaseException) -> None:
    """In a transaction of its own: the handler may have spoilt the one it was called in, or lost
    its connection, of which the server may still hold the locks."""
    application.restore_connection()
    with transaction.atomic():
        event = party_events.lock_event(key, wait=True)
        if event is None:
            logger.error("the event handler raised an exception after it returned", exc_info=error)
        else:
            _postpone(event, application.reason_of(error))


def _claim(keys: list[int], address: str) -> list[Job]:
    return [job for key in keys if (job := _claim_alone(key, address)) is not None]


def _claim_alone(key: int, address: str) -> Job | None:
    try:
        with transaction.atomic():
            event = party_events.lock_event(key)
            if event is None:
                return None
            party_events.claim_event(event, LEASE)
            return _job(event, address)
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.exception("event %d cannot be sent", key)
        with transaction.atomic():
            event = party_events.lock_event(key)
            if event is not None:
                _postpone(event, describe(error))
        return None


def _job(event: PartyEvent, address: str) -> Job:
    body = json.dumps(document_of(event)).encode()
    return Job(
        key=PostedEvent(event.pk),
        partner_id=APPLICATION,
        url=address,
        content_type="application/json",
        body=body,
        authorization=settings.MSH_FROM_PARTY_AUTHORIZATION,
        deadline=min(settings.MSH_HTTP_DEADLINE, POST_DEADLINE),
        not_after=time.monotonic() + GRACE,
        crash_points=CONSUMER_CRASH_POINTS,
        headers=(
            ("Idempotency-Key", str(event.event_id)),
            *signature.signed(settings.MSH_FROM_PARTY_SIGNING, str(event.event_id), body),
        ),
    )


def _record(posted: PostedEvent, result: AttemptResult) -> None:
    event = party_events.lock_event(posted.key, wait=True)
    if event is None:
        return
    if result.outcome is AttemptOutcome.TRANSMITTED:
        party_events.mark_delivered(event)
    else:
        _postpone(event, result.detail)


def _postpone(event: PartyEvent, why: str) -> None:
    logger.warning("event %s of %s not sent: %s", event.event_id, event.message, why)
    party_events.mark_failed(event, RETRY_IN)
