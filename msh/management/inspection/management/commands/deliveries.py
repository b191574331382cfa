"""`manage.py deliveries`: what waits for a person, or all that is in one state."""

from argparse import ArgumentParser

from msh.management.cli import MshCommand, Row
from msh.models import Delivery
from msh.protocol.kinds import DeliveryState

COLUMNS = ("delivery", "state", "consumer", "partner", "message_id", "attempt", "since", "detail")


class Command(MshCommand):
    help = "List deliveries that wait for a decision: blocked, parked or in doubt."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        states = [state.value for state in DeliveryState if state is not DeliveryState.NEW]
        parser.add_argument("--state", choices=states, help="list deliveries in this state instead")
        parser.add_argument("--consumer", help="only deliveries of this consumer")

    def handle(self, *args: object, **options: object) -> None:
        found = Delivery.objects.select_related("consumer", "message__link__partner")
        if options["state"]:
            found = found.filter(state=options["state"])
        else:
            found = found.waiting_for_operator()
        if options["consumer"]:
            found = found.filter(consumer__name=options["consumer"])
        rows = (_row(delivery) for delivery in found.order_by("pk").iterator())
        self.answer_rows(rows, COLUMNS)


def _row(delivery: Delivery) -> Row:
    message = delivery.message
    values = (
        *(delivery.pk, delivery.state, delivery.consumer.name, message.link.partner.name),
        *(message.message_id, delivery.attempt, delivery.started_at, delivery.detail),
    )
    return dict(zip(COLUMNS, values, strict=True))
