"""Operators are called when an incident opens, a link is stuck, or a message is late while retries
remain: by e-mail and by webhook, each told at least once, tried again until it is."""

import json
import logging
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.utils import timezone

from msh.flows import advance
from msh.models import Channel, OperatorNotice
from msh.transport.webhook import WebhookFailed, post

logger = logging.getLogger(__name__)

BATCH = 20
DEADLINE = 10.0  # seconds
LEASE = timedelta(minutes=5)
FIRST_WAIT = timedelta(seconds=30)
LONGEST_WAIT = timedelta(minutes=30)
TRIES = 50  # about a day


def call_operators() -> int:
    """Make the notices that are missing, then tell those that are due; how many were told."""
    with transaction.atomic():
        advance.make_notices(_channels())
        due = advance.claim_notices(BATCH, LEASE)
    return sum(_tell(notice) for notice in due)


def _channels() -> list[str]:
    channels = []
    if settings.MSH_OPERATORS_EMAIL:
        channels.append(Channel.EMAIL.value)
    if settings.MSH_OPERATORS_WEBHOOK:
        channels.append(Channel.WEBHOOK.value)
    return channels


def _tell(notice: OperatorNotice) -> bool:
    try:
        if notice.channel == Channel.EMAIL:
            _mail(notice)
        else:
            _post(notice)
    except (OSError, WebhookFailed) as error:  # smtplib's errors are OSErrors
        why = str(error) or type(error).__name__
        logger.warning("operators were not called by %s: %s", notice, why)
        wait = min(FIRST_WAIT * 2 ** min(notice.tries - 1, 10), LONGEST_WAIT)
        give_up = notice.tries >= TRIES
        advance.notice_failed(notice, why, timezone.now() + wait, give_up=give_up)
        return False
    advance.notice_told(notice)
    return True


def _mail(notice: OperatorNotice) -> None:
    document = document_of(notice)
    lines = [f"{name}: {document[name]}" for name in document if document[name]]
    EmailMessage(
        subject=f"[MSH] {notice.partner}: {notice.kind.replace('_', ' ')}",
        body="\n".join(lines) + "\n",
        from_email=settings.MSH_OPERATORS_EMAIL_FROM,
        to=settings.MSH_OPERATORS_EMAIL,
        headers={"Message-ID": f"<msh-notice-{notice.pk}@{settings.MSH_MAIL_DOMAIN}>"},
    ).send()


def _post(notice: OperatorNotice) -> None:
    body = json.dumps(document_of(notice) | {"notice": notice.pk}).encode()
    authorization = settings.MSH_OPERATORS_WEBHOOK_AUTHORIZATION
    post(settings.MSH_OPERATORS_WEBHOOK, body, authorization, DEADLINE)


def document_of(notice: OperatorNotice) -> dict[str, Any]:
    """What is told: by mail as lines, by webhook as JSON."""
    return {
        "msh": settings.MSH_URI,
        "partner": notice.partner.name,
        "what": notice.kind,
        "message_id": notice.message_id,
        "detail": notice.detail,
        "since": notice.at.isoformat(timespec="seconds"),
        "console": _page(notice),
    }


def _page(notice: OperatorNotice) -> str:
    base = settings.MSH_CONSOLE_URL.rstrip("/")
    if notice.incident_id:
        return f"{base}/msh/incident/{notice.incident_id}/change/"
    return f"{base}/msh/outboundlink/{notice.partner.outbound_link.pk}/change/"
