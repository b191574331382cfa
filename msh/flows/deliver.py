"""MSH → application: accepted messages go to the consumer, each pair in its order.

One in-process consumer for now: MSH_CONSUMER, a dotted path. It is called in the transaction that
marks the message delivered, so that its effects and that mark are one (D40).
"""

import logging
from collections.abc import Callable
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from msh.faults import CrashPoint, reach
from msh.flows import advance
from msh.models import InboundMessage

logger = logging.getLogger(__name__)

BATCH = 50
RETRY_IN = timedelta(seconds=5)

Consumer = Callable[[InboundMessage], object]


def consumer() -> Consumer | None:
    """The configured consumer. Raises ImportError, naming the path, if there is no such thing."""
    return import_string(settings.MSH_CONSUMER) if settings.MSH_CONSUMER else None


def deliver() -> int:
    """Deliver the head of every pair that has one due; how many were delivered."""
    consume = consumer()
    if consume is None:
        return 0
    return sum(_deliver_one(due, consume) for due in advance.due_deliveries(BATCH))


def _deliver_one(due: advance.Due, consume: Consumer) -> bool:
    with transaction.atomic():
        message = advance.lock_head(due)
        if message is None:
            return False
        try:
            with transaction.atomic():
                consume(message)
        except Exception as error:  # noqa: BLE001  an application may raise anything
            text = f"{type(error).__name__}: {error}"
            logger.warning("consumer failed on %s: %s", message.message_id, text)
            advance.delivery_failed(due, message, text, RETRY_IN)
            return False
        advance.delivered(due, message)
        reach(CrashPoint.DELIVER_BEFORE_COMMIT)
    reach(CrashPoint.DELIVER_AFTER_COMMIT)
    return True
