"""A message that an operator sends to try a partner: to the partner it is like any other."""

from django.db import transaction

from msh.flows.errors import NotPossible
from msh.flows.sending.submit import SubmitRefused, submit
from msh.models import OutboundMessage
from msh.protocol.message import Payload
from msh.store.history import Actor
from msh.store.sending.submissions import record_act
from partners.models import Agreement


def send_test_message(
    agreement: Agreement, actor: Actor, service_interface: str, action: str, text: str
) -> OutboundMessage:
    """Raises NotPossible for what cannot be submitted."""
    payload = Payload(text.encode(), content_type="text/plain", label="test.txt")
    try:
        with transaction.atomic():
            message = submit(agreement, service_interface, action, [payload])
            record_act(message, "TestSubmitted", "a test message", actor)
    except SubmitRefused as refused:
        raise NotPossible(str(refused)) from None
    return message
