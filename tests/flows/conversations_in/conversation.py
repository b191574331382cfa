"""Messages of conversations in order, as a partner sends them, and what an operator sees."""

import json
from io import StringIO

from django.core.management import call_command

from msh.flows.receiving.ebms2 import receive
from msh.flows.receiving.incoming import Incoming
from msh.models import InboundConversation, Incident
from msh.store.history import Actor
from partners.models import Agreement
from tests.delivery import application
from tests.delivery.desk import Desk
from tests.peer.ebms2 import message, message_order

HORIZON = 3 * 60  # seconds: RetryInterval and two Retries
OPERATOR = Actor("kim", "it is too old")
WHY = ("--reason", "the partner says so")


def take(agreement: Agreement, *numbers: int, conversation: str = "talk", name: str = "") -> None:
    """Each message has the name of its conversation, or `name`, and its number."""
    for number in numbers:
        out = message(
            message_id=f"{name or conversation}-{number}",
            conversation_id=conversation,
            cpa_id=agreement.tpa_id,
            extra=message_order(number, "Continue" if number else "Reset"),
        )
        answer = receive(agreement.partner, Incoming(out.content_type, out.body))
        assert (answer.status, answer.reason) == (204, "")


def delivered() -> list[str]:
    Desk().settle()
    return application.taken


def of(conversation: str = "talk") -> InboundConversation:
    return InboundConversation.objects.get(conversation_id=conversation)


def run(command: str, *options: str, conversation: str = "talk") -> dict[str, object]:
    out = StringIO()
    call_command(command, "cpa-1", conversation, *options, "--json", stdout=out)
    answer: dict[str, object] = json.loads(out.getvalue())
    return answer


def make_due(**conversation: str | bool) -> None:
    InboundConversation.objects.filter(**conversation).update(due="2026-01-01T00:00Z")


def open_incidents() -> list[tuple[str, str]]:
    return list(Incident.objects.filter(resolved_at=None).values_list("kind", "detail"))
