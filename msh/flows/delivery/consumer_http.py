"""Consumers over HTTP: a POST of the payload, with the header fields as headers.

The order is that of 004-02: the history says processing (committed), the POST, the history says
how it ended (committed at once), then the message leaves the order of its pair.
"""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from django.conf import settings
from django.db import transaction

from msh import wire
from msh.faults import CrashPoint, reach
from msh.flows.application import reason_of, restore_connection, words_of
from msh.models import InboundMessage, InboundPayload
from msh.protocol.attempt import AttemptResult
from msh.protocol.delivery import event_of_answer
from msh.protocol.delivery.events import DeliveryEvent, OutcomeKept, OutcomeLost
from msh.protocol.kinds import DeliveryState
from msh.protocol.message import Payload
from msh.store import capacity
from msh.store.delivery import deliveries
from msh.store.delivery.deliveries import Consumers, HeldDelivery
from msh.transport import signature
from msh.transport.job import CONSUMER_CRASH_POINTS, Job
from partners.secrecy import SecretUnreadableError

logger = logging.getLogger(__name__)

HEADER_LIMIT = 4000
"""Characters of a header's value: every MessageId has room, percent-encoded too. A longer value is
left out rather than cut (002-11)."""
BEGIN_SHARE, END_SHARE = 0.1, 0.8
"""Shares of the lease after which a POST is not begun any more, and after which it has ended."""


@dataclass(frozen=True, slots=True)
class Posted:
    """Which attempt of which delivery a job is."""

    delivery: int
    attempt: int
    message_id: str = field(default="", compare=False)


def jobs_of(claimed: Iterable[HeldDelivery]) -> tuple[list[Job], list[tuple[Posted, str]]]:
    """A job for each claimed delivery, and those that cannot be sent, with the reason."""
    jobs: list[Job] = []
    unsendable: list[tuple[Posted, str]] = []
    for handover in claimed:
        posted = Posted(handover.key, handover.attempt)
        try:
            jobs.append(_read_job(handover, posted))
        except (SecretUnreadableError, ValueError) as problem:
            unsendable.append((posted, words_of(problem)))
        except Exception as error:
            logger.exception("delivery %d cannot be sent", handover.key)
            restore_connection()
            unsendable.append((posted, reason_of(error)))
    return jobs, unsendable


def record(posted: Posted, result: AttemptResult, consumers: Consumers) -> None:
    event = event_of_answer(posted.attempt, result.status, result.detail)
    end(posted, event, consumers, external_id=result.external_id)


def give_up(posted: Posted, error: str, consumers: Consumers) -> None:
    reason = f"attempt {posted.attempt} ended, its outcome cannot be recorded: {error}"
    end(posted, OutcomeLost(posted.attempt, reason), consumers)


def end(
    posted: Posted, event: DeliveryEvent, consumers: Consumers, *, external_id: str = ""
) -> None:
    """The outcome into the history, at once; then the message out of the order of its pair."""
    reach(CrashPoint.CONSUMER_BEFORE_HISTORY)
    with transaction.atomic():
        (handover,) = deliveries.lock([posted.delivery], consumers, wait=True)
        handover.external_id = external_id or handover.external_id
        handover.step(event)
    if handover.value.state in (DeliveryState.COMPLETED, DeliveryState.REJECTED):
        reach(CrashPoint.CONSUMER_AFTER_HISTORY)
        leave(posted.delivery, consumers)


def leave(delivery: int, consumers: Consumers) -> None:
    with transaction.atomic():
        # None if it was removed meanwhile.
        for handover in deliveries.lock([delivery], consumers, wait=True):
            if handover.value.due is not None:
                handover.step(OutcomeKept())


def _read_job(handover: HeldDelivery, posted: Posted) -> Job:
    """Once more if the session is lost: the attempt is claimed, and would be spent."""
    try:
        return _job(handover, posted)
    except Exception as error:
        if not capacity.is_gone(error):
            raise
        restore_connection()
        return _job(handover, posted)


def _job(handover: HeldDelivery, posted: Posted) -> Job:
    consumer = handover.consumer
    message = InboundMessage.objects.select_related("link__partner", "agreement").get(
        pk=handover.message_key
    )
    content_type, body, native_type = _body(message)
    signing = consumer.signing()
    begin = BEGIN_SHARE * consumer.lease
    return Job(
        key=replace(posted, message_id=message.message_id),
        partner_id=consumer.pk,
        url=consumer.url,
        content_type=content_type,
        body=body,
        authorization=consumer.authorization(),
        deadline=min(settings.MSH_HTTP_DEADLINE, END_SHARE * consumer.lease),
        not_after=time.monotonic() + (min(begin, signature.FRESH) if signing else begin),
        crash_points=CONSUMER_CRASH_POINTS,
        headers=(
            *_headers(message, handover),
            *native_type,
            *signature.signed(signing, wire.percent_encoded(_key(message, handover)), body),
        ),
    )


def _body(message: InboundMessage) -> tuple[str, bytes, tuple[tuple[str, str], ...]]:
    """Content-Type and body: one payload as it is, none an empty body, several a multipart/mixed
    one; and the header with the Content-Type as it came, if it is another."""
    parts = list(InboundPayload.objects.filter(message=message))
    if not parts:
        return "", b"", ()
    if len(parts) == 1:
        came, content = parts[0].content_type, bytes(parts[0].content)
        as_sent = wire.ascii_type(came)
        header = (wire.NATIVE_TYPE, wire.percent_encoded(came))
        return as_sent, content, () if as_sent == came else (header,)
    boundary = wire.new_boundary()
    payloads = (
        Payload(bytes(part.content), part.content_type, part.content_id, part.label)
        for part in parts
    )
    body = wire.compose_mixed(payloads, boundary)
    return f'multipart/mixed; boundary="{boundary}"', body, ()


def _headers(message: InboundMessage, handover: HeldDelivery) -> Iterable[tuple[str, str]]:
    """The MessageId as Idempotency-Key (004-05), and the fields of the message's header. A replay
    is another request on purpose: its key is another, and it says that it is one."""
    replay = str(handover.key) if handover.is_replay else ""
    fields = {
        "Idempotency-Key": _key(message, handover),
        "X-MSH-Replay": replay,
        "X-MSH-Message-Id": message.message_id,
        "X-MSH-Partner": message.link.partner.name,
        "X-MSH-TPA-Id": message.agreement.tpa_id,
        "X-MSH-Service-Interface": message.service_interface,
        "X-MSH-Service-Type": message.service_type,
        "X-MSH-Action": message.action,
        "X-MSH-From-Role": message.from_role,
        "X-MSH-To-Role": message.to_role,
        "X-MSH-Conversation-Id": message.conversation_id,
        "X-MSH-Ref-To-Message-Id": message.ref_to_message_id,
        "X-MSH-Sequence-Number": str(message.sequence_number or ""),
        "X-MSH-Received-At": message.received_at.isoformat(),
        "X-MSH-Attempt": str(handover.attempt),
    }
    for name, value in fields.items():
        safe = wire.percent_encoded(value)
        if 0 < len(safe) <= HEADER_LIMIT:
            yield name, safe


def _key(message: InboundMessage, handover: HeldDelivery) -> str:
    """What recognises a request that is sent again."""
    replay = f";replay={handover.key}" if handover.is_replay else ""
    return message.message_id + replay
