"""An outcome that nobody knows: ask the consumer's resolver, and write down its answer.

A resolver looks into the consumer's system, for instance by the MessageId as Idempotency-Key. It
is called outside any transaction. What it raises means that it does not know (002-08, D30).
"""

import logging

from django.db import transaction

from msh.flows import application
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import Delivery, callables
from msh.protocol.delivery.events import OutcomeKept, ResolverAnswered, ResolverVerdict
from msh.protocol.kinds import DeliveryState
from msh.store.delivery import deliveries
from msh.store.delivery.deliveries import Consumers

logger = logging.getLogger(__name__)


def ask(key: int, attempt: int) -> None:
    delivery = Delivery.objects.select_related(
        "consumer", "message__link__partner", "message__agreement"
    ).get(pk=key)
    verdict, detail = _answer(delivery)
    with transaction.atomic():
        (handover,) = deliveries.lock([key], Consumers(), wait=True)
        handover.step(ResolverAnswered(attempt, verdict, detail))
        if handover.value.state is DeliveryState.COMPLETED and handover.value.due is not None:
            handover.step(OutcomeKept())
    wake_up(WakeUp.DELIVER)


def _answer(delivery: Delivery) -> tuple[ResolverVerdict, str]:
    try:
        answer = callables.load(delivery.consumer.resolver)(delivery)
        return ResolverVerdict(answer), ""
    except application.ERRORS as error:
        problem = f"the resolver raised {application.reason_of(error)}"
        logger.warning("%s on %s: %s", delivery.consumer, delivery.message_id, problem)
        return ResolverVerdict.IN_DOUBT, problem
    finally:
        application.restore_connection()
