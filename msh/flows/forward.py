"""PARTNER → MSH → PARTNER: messages for a party behind another MSH are sent on (000 §4.1).

Store and forward: Header, Manifest and payloads as they came; at the first transmission the
header document gets one more RoutingHeader, with a number of the onward pair.
"""

import logging
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from msh import wire
from msh.faults import CrashPoint, reach
from msh.flows import advance
from msh.flows.nudge import Nudge, nudge
from msh.models import InboundMessage, InboundPayload, OutboundMessage
from msh.protocol.message import Payload

logger = logging.getLogger(__name__)

BATCH = 50
RETRY_IN = timedelta(seconds=30)


def forward() -> int:
    """Send on the head of every pair that has one; how many were."""
    sent_on = sum(_forward_one(due) for due in advance.due_forwards(BATCH))
    if sent_on:
        nudge(Nudge.CARRY)
    return sent_on


def _forward_one(due: advance.Due) -> bool:
    with transaction.atomic():
        message = advance.lock_routed(due)
        if message is None:
            return False
        try:
            with transaction.atomic():
                _send_on(due, message)
        except ValueError as problem:
            logger.warning("%s cannot be sent on: %s", message.message_id, problem)
            advance.send_on_failed(due, message, str(problem), RETRY_IN)
            return False
        reach(CrashPoint.FORWARD_BEFORE_COMMIT)
    reach(CrashPoint.FORWARD_AFTER_COMMIT)
    return True


def _send_on(due: advance.Due, message: InboundMessage) -> None:
    """Raises ValueError if there is no way onward; it was there when the message came."""
    way = advance.way_onward(message.agreement)
    boundary = wire.new_boundary()
    payloads = [_payload(row) for row in message.payloads.all()]
    onward = OutboundMessage(
        agreement=way.agreement,
        message_id=message.message_id,
        semantics=message.semantics,
        conversation_id=message.conversation_id,
        service_interface=message.service_interface,
        action=message.action,
        ref_to_message_id=message.ref_to_message_id,
        submitted_at=timezone.now(),
        content_digest=bytes(message.content_digest),
        boundary=boundary,
    )
    parts = wire.compose_parts(payloads, boundary)
    advance.sent_on(due, message, onward, payloads, parts)


def _payload(row: InboundPayload) -> Payload:
    content = bytes(row.content)
    return Payload(content, row.content_type, row.content_id, row.label, row.description)
