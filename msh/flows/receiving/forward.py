"""PARTNER → MSH → PARTNER: messages for a party behind another MSH are forwarded (000 §4.1).

Store and forward: Header, Manifest and payloads as they came; at the first transmission the
header document gets one more RoutingHeader, with a number of the onward pair.
"""

import logging
from datetime import timedelta

from django.db import transaction

from msh import wire
from msh.faults import CrashPoint, reach
from msh.flows.hints import Hints
from msh.flows.wake_up import WakeUp, wake_up
from msh.flows.worker_loop import WorkerLoop
from msh.models import InboundMessage, InboundPayload, OutboundMessage
from msh.protocol.message import Payload
from msh.store import capacity
from msh.store.receiving.forwarding import (
    Due,
    find_due,
    find_next_hop,
    forward_message,
    lock_routed,
    mark_forwarding_failed,
)
from msh.store.sending.isolation import describe, one_line

logger = logging.getLogger(__name__)

BATCH = 50
"""Pairs of which a message is forwarded before others are looked for."""
RETRY_IN = timedelta(seconds=30)
"""Time between tries. A message cannot be forwarded because of the configuration, which a person
has to repair."""


class ForwardingLoop(WorkerLoop):
    """The loop that forwards. Nothing of it is under way between two rounds."""

    kind = WakeUp.FORWARD

    def take(self, event: object) -> bool:
        return False

    def round(self, hints: Hints) -> bool:
        """Forward until nothing is due."""
        forwarded = False
        while hints.all and not self._stopping.is_set() and forward():
            forwarded = True
        return forwarded


def forward() -> int:
    forwarded = sum(_forward_one(due) for due in find_due(BATCH))
    if forwarded:
        wake_up(WakeUp.TRANSMIT)
    return forwarded


def _forward_one(due: Due) -> bool:
    try:
        with transaction.atomic():
            message = lock_routed(due)
            if message is None:
                return False
            _send_on(due, message)
            reach(CrashPoint.FORWARD_BEFORE_COMMIT)
    # The configuration is in the way: an incident tells operators, and the message waits.
    except ValueError as problem:
        _note_failure(due, str(problem))
        return False
    except Exception as problem:
        if capacity.is_gone(problem):
            raise
        logger.exception("message %d cannot be forwarded", due.id)
        # A lock timeout or a lost connection is over at the next try; an incident for it would be
        # noise.
        if capacity.is_lasting(problem):
            _note_failure(due, describe(problem))
        return False
    reach(CrashPoint.FORWARD_AFTER_COMMIT)
    return True


def _note_failure(due: Due, why: str) -> None:
    logger.warning("message %d cannot be forwarded: %s", due.id, why)
    try:
        with transaction.atomic():
            message = lock_routed(due)
            if message is not None:
                mark_forwarding_failed(due, message, one_line(why), RETRY_IN)
    except Exception as problem:
        if capacity.is_gone(problem):
            raise
        logger.exception("the failure to forward message %d could not be recorded", due.id)


def _send_on(due: Due, message: InboundMessage) -> None:
    """Raises ValueError if there is no route any more; there was one when the message came."""
    way = find_next_hop(message.agreement)
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
        content_digest=bytes(message.content_digest),
        boundary=boundary,
    )
    parts = wire.compose_parts(payloads, boundary)
    forward_message(due, message, onward, payloads, parts)


def _payload(row: InboundPayload) -> Payload:
    content = bytes(row.content)
    return Payload(content, row.content_type, row.content_id, row.label, row.description)
