"""Events to webhooks: each gets those it wants in the order of the feed, one at a time, again and
again until it takes it. The loop that notifies the From-Party's application carries them."""

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from msh.flows.application import reason_of
from msh.models import PartyEvent, Webhook
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store import capacity
from msh.store.delivery.feed import EVENTS
from msh.store.incidents import note_webhook_failed
from msh.store.sending import webhooks
from msh.transport import signature
from msh.transport.job import CONSUMER_CRASH_POINTS, Job
from partners.secrecy import SecretUnreadableError

logger = logging.getLogger(__name__)

DEADLINE = 30.0  # seconds
LEASE = timedelta(seconds=40)
"""Longer than GRACE and DEADLINE together: no event is under way twice."""
GRACE = 5.0
"""Seconds after which a claimed event is not POSTed any more."""
RETRY_IN, LONGEST = timedelta(seconds=5), timedelta(minutes=5)
"""The wait after the first failed attempt, which doubles with each, and the longest."""
LISTED = 2_000
"""Events that get their places at once."""
CALL_AFTER = 5
"""Failed attempts after which operators are called."""


@dataclass(frozen=True, slots=True)
class PostedToWebhook:
    """Which event a job transmits, and for which webhook."""

    webhook: int
    position: int
    partner_id: int


def begin(webhook: Webhook) -> None:
    """Let a new one begin with what happens from now on."""
    _list_new()
    webhook.position = EVENTS.last_given()


def _list_new() -> None:
    with transaction.atomic():
        EVENTS.list(LISTED)


def claim() -> Iterator[Job]:
    keys = webhooks.find_due()
    if keys:
        _list_new()
    for key in keys:
        try:
            with transaction.atomic():
                job = _claim(key)
        except Exception as error:
            if capacity.is_gone(error):
                raise
            logger.exception("webhook %d cannot be served", key)
            continue
        if job is not None:
            yield job


def _claim(key: int) -> Job | None:
    webhook = webhooks.lock_due(key)
    if webhook is None:
        return None
    event, position = webhooks.next_event(webhook)
    if event is None:
        if position > webhook.position:
            webhooks.pass_over(webhook, position)
        return None
    try:
        job = _job(webhook, event)
    except (SecretUnreadableError, ValueError) as problem:
        _postpone(webhook, event.message.link.partner_id, reason_of(problem))
        return None
    webhooks.claim(webhook, LEASE)
    return job


def _job(webhook: Webhook, event: PartyEvent) -> Job:
    position, partner = event.feed_position or 0, event.message.link.partner
    body = json.dumps({"position": position, **document_of(event)}).encode()
    identifier = str(event.event_id)
    return Job(
        key=PostedToWebhook(webhook.pk, position, partner.pk),
        partner_id=-webhook.pk,  # its own slots: a slow one keeps no other from sending
        url=webhook.url,
        content_type="application/json",
        body=body,
        authorization="",
        deadline=min(settings.MSH_HTTP_DEADLINE, DEADLINE),
        not_after=time.monotonic() + GRACE,
        crash_points=CONSUMER_CRASH_POINTS,
        headers=(
            ("Idempotency-Key", identifier),
            *signature.signed(webhook.signing(), identifier, body),
        ),
    )


def document_of(event: PartyEvent) -> dict[str, object]:
    """The event as handlers, webhooks and readers of the feed get it."""
    message = event.message
    return {
        "event_id": str(event.event_id),
        "kind": event.kind,
        "at": event.at.isoformat(),
        "code": event.code,
        "detail": event.detail,
        "message_id": message.message_id,
        "conversation_id": message.conversation_id,
        "ref_to_message_id": message.ref_to_message_id,
        "service_interface": message.service_interface,
        "service_type": message.service_type,
        "action": message.action,
        "partner": message.link.partner.name,
        "tpa_id": message.agreement.tpa_id,
    }


def record(posted: PostedToWebhook, result: AttemptResult) -> None:
    webhook = webhooks.lock(posted.webhook)
    if webhook is None or webhook.position >= posted.position:
        return  # it was removed, or another worker was faster
    if result.outcome is AttemptOutcome.TRANSMITTED:
        webhooks.mark_taken(webhook, posted.position)
    else:
        _postpone(webhook, posted.partner_id, result.detail)


def _postpone(webhook: Webhook, partner_id: int, why: str) -> None:
    logger.warning("webhook %s did not take an event: %s", webhook.name, why)
    wait = min(RETRY_IN * 2 ** min(webhook.tries, 10), LONGEST)
    webhooks.mark_failed(webhook, partner_id, why, wait)


def call_for_failing() -> None:
    """Call operators for webhooks that do not take their next event, until they do."""
    note_webhook_failed(webhooks.failing(CALL_AFTER))
