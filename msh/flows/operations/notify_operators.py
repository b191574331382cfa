"""Operators are notified when an incident opens, a link is stuck, or a message is late while
retries remain: by e-mail and by webhook. Each notice is sent until it is taken, at least once.

What is due goes as one call, so that a dead network with a thousand partners behind it is one mail
and not a thousand.
"""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction

from msh.models import Channel, OperatorNotice
from msh.store.operations.notices import claim_notices, make_notices, mark_failed, mark_sent
from msh.store.sending.isolation import one_line
from msh.transport.webhook import WebhookFailed, post

logger = logging.getLogger(__name__)

BATCH = 100
"""Notices that are sent together: a night with more of them is several mails."""
POST_DEADLINE = 10.0  # seconds
LEASE = timedelta(minutes=5)
"""More than sending a batch takes; after it another worker sends what this one did not."""
FIRST_WAIT = timedelta(seconds=30)
LONGEST_WAIT = timedelta(minutes=30)
"""The wait doubles with each try, from the first to the longest."""
TRIES = 50
"""About a day."""

_running = threading.Lock()


def notify_operators() -> int:
    """Make the notices that are missing, then send those that are due; how many were sent.

    A dead mail host holds one thread of a worker at most: a second caller returns at once.
    """
    if not _running.acquire(blocking=False):
        return 0
    try:
        channels = _channels()
        with transaction.atomic():
            make_notices(channels)
        return sum(_send_claimed(channel, send) for channel, send in channels.items())
    finally:
        _running.release()


Send = Callable[[Sequence[OperatorNotice]], None]


def _channels() -> dict[str, Send]:
    channels: dict[str, Send] = {}
    if settings.MSH_OPERATORS_EMAIL:
        channels[Channel.EMAIL] = _mail
    if settings.MSH_OPERATORS_WEBHOOK:
        channels[Channel.WEBHOOK] = _post
    return channels


def _send_claimed(channel: str, send: Send) -> int:
    with transaction.atomic():
        notices = claim_notices(channel, BATCH, LEASE)
    return _send(notices, send) if notices else 0


def _send(notices: Sequence[OperatorNotice], send: Send) -> int:
    try:
        send(notices)
    except (OSError, WebhookFailed) as error:  # smtplib's errors are OSErrors
        _not_sent(notices, error)
        return 0
    except Exception as error:
        if len(notices) > 1:
            logger.exception("%d notices of %s are sent one by one", *_sum(notices))
            return sum(_send([notice], send) for notice in notices)
        _not_sent(notices, error)
        return 0
    mark_sent(notices)
    return len(notices)


def _not_sent(notices: Sequence[OperatorNotice], error: Exception) -> None:
    why = f"{type(error).__name__}: {error}"
    logger.warning("%d notices did not reach the operators by %s: %s", *_sum(notices), why)
    _put_off(notices, one_line(why))


def _sum(notices: Sequence[OperatorNotice]) -> tuple[int, str]:
    return len(notices), notices[0].channel


def _put_off(notices: Sequence[OperatorNotice], why: str) -> None:
    with transaction.atomic():
        for notice in notices:
            wait = min(FIRST_WAIT * 2 ** min(notice.tries - 1, 10), LONGEST_WAIT)
            mark_failed(notice, why, wait, give_up=notice.tries >= TRIES)


def _mail(notices: Sequence[OperatorNotice]) -> None:
    paragraphs = [_paragraph(document_of(notice)) for notice in notices]
    EmailMessage(
        subject=_subject(notices),
        body="\n".join((f"MSH {settings.MSH_URI}\n", *paragraphs)),
        from_email=settings.MSH_OPERATORS_EMAIL_FROM,
        to=settings.MSH_OPERATORS_EMAIL,
        headers={"Message-ID": f"<msh-notice-{notices[0].pk}@{settings.MSH_MAIL_DOMAIN}>"},
    ).send()


def _subject(notices: Sequence[OperatorNotice]) -> str:
    first = f"{notices[0].partner}: {notices[0].kind.replace('_', ' ')}"
    others = f" and {len(notices) - 1} more" if len(notices) > 1 else ""
    return f"[MSH] {first}{others}"


def _paragraph(document: dict[str, Any]) -> str:
    document = {**document, "what": document["what"].replace("_", " ")}
    lines = (f"{name.replace('_', ' ')}: {value}\n" for name, value in document.items() if value)
    return "".join(lines)


def _post(notices: Sequence[OperatorNotice]) -> None:
    document = {"msh": settings.MSH_URI, "notices": [document_of(notice) for notice in notices]}
    authorization = settings.MSH_OPERATORS_WEBHOOK_AUTHORIZATION
    body = json.dumps(document).encode()
    post(settings.MSH_OPERATORS_WEBHOOK, body, authorization, POST_DEADLINE)


def document_of(notice: OperatorNotice) -> dict[str, Any]:
    return {
        "notice": notice.pk,
        "partner": notice.partner.name,
        "what": notice.kind,
        "message_id": notice.message_id,
        "detail": " ".join(notice.detail.split()),
        "since": notice.at.isoformat(timespec="seconds"),
        "console": _page(notice),
    }


def _page(notice: OperatorNotice) -> str:
    base = settings.MSH_CONSOLE_URL.rstrip("/")
    if notice.incident_id:
        return f"{base}/msh/incident/{notice.incident_id}/change/"
    return f"{base}/msh/outboundlink/{notice.partner.outbound_link.pk}/change/"
