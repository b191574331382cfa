"""Messages that are older than what is kept."""

from datetime import timedelta

from django.utils import timezone

from msh.models import ConsumerKind, InboundMessage, OutboundMessage, Signal
from tests.delivery.desk import Desk, consumer, receive
from tests.flows.world import World, make_world

DAY = 86_400
YEARS_AGO = timezone.now() - timedelta(days=800)


def old_world(count: int = 4) -> World:
    """That many messages, delivered and acknowledged years ago. Nobody is told of it."""
    world = make_world()
    consumer(ConsumerKind.IN_PROCESS)
    receive(world, count)
    Desk().settle()
    age()
    return world


def age() -> None:
    InboundMessage.objects.filter(delivered_at__isnull=False).update(delivered_at=YEARS_AGO)
    OutboundMessage.objects.filter(completed_at__isnull=False).update(completed_at=YEARS_AGO)
    Signal.objects.update(expires_at=YEARS_AGO)


def numbers() -> tuple[list[int | None], list[int | None]]:
    """Those that are left: outbound, inbound."""
    out = OutboundMessage.objects.order_by("pk").values_list("sequence_number", flat=True)
    into = InboundMessage.objects.order_by("pk").values_list("sequence_number", flat=True)
    return list(out), list(into)
