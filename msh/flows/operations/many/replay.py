"""Messages that a consumer has completed, delivered to it again: one, or all since a time."""

from datetime import datetime

from django.db.models import Case, QuerySet, TextField, Value, When
from django.db.models.functions import Coalesce, Concat

from msh.flows.errors import NotPossible, NotYet
from msh.flows.operations.change_delivery import lacking_payloads
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import Delivery, InboundMessage
from msh.protocol.kinds import DeliveryState
from msh.store.delivery.replays import OPEN_AT_ONCE, insert_replay, is_full
from msh.store.history import Actor

LABEL = Concat(
    "message__message_id",
    Value(" from "),
    "message__link__partner__name",
    Value(" to "),
    "consumer__name",
    Case(When(replay_of=None, then=Value("")), default=Value(" (replay)")),
    output_field=TextField(),
)
"""The expression for the name of a delivery, like its `str`, without its row."""


def replayable(since: datetime) -> QuerySet[Delivery]:
    """Deliveries that were completed, of messages received since then, in the order of their
    acceptance, or of their conversation."""
    received = InboundMessage.objects.since(since).values("pk")
    completed = Delivery.objects.filter(
        state=DeliveryState.COMPLETED, replay_of=None, message__in=received
    )
    in_order = Coalesce("message__turn", "message_id")
    return completed.select_related("consumer", "message__link__partner").order_by(in_order, "pk")


def why_not(delivery: Delivery) -> str:
    """Why it cannot be replayed, as a clause with a full stop; empty if it can."""
    if delivery.replay_of_id:
        return "the delivery is itself a replay: replay the original delivery."
    if delivery.state != DeliveryState.COMPLETED:
        return f"the delivery is {delivery.get_state_display()}."
    return ""


def of(rows: QuerySet[Delivery], consumer: int | None, partner: str) -> QuerySet[Delivery]:
    rows = rows.filter(consumer=consumer) if consumer else rows
    return rows.filter(message__link__partner__name=partner) if partner else rows


def replay(key: int, actor: Actor) -> None:
    """Raises NotPossible, and NotYet while its consumer has enough to do."""
    deliveries = Delivery.objects.select_related("message__link__partner")
    delivery = deliveries.filter(pk=key).first()
    if delivery is None:
        raise NotPossible("The delivery was removed.")
    partner = delivery.message.link.partner
    if not partner.delivers:
        raise NotPossible(
            f"Deliveries of messages from {partner.name} are held: resume them first."
        )
    if is_full(delivery.consumer_id):
        raise NotYet(
            f"{OPEN_AT_ONCE} replays to consumer {delivery.consumer} are not finished yet."
        )
    if lacking_payloads([delivery.message_id]):
        raise NotPossible("The payloads of the message were removed by retention.")
    if insert_replay(key, actor) is None:
        raise NotPossible(
            f"The delivery is {delivery.get_state_display()}: only a completed one can be replayed."
        )
    wake_up(WakeUp.DELIVER)
