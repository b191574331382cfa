"""Conversations in order that need an operator."""

import pytest

from msh.flows.operations.watch import watch
from msh.models import InboundConversation, OutboundMessage
from partners.models import Agreement, Partner
from tests.admin.links.conversations import stop
from tests.endpoint.ebms2 import agree
from tests.flows.conversations_in.conversation import make_due, take
from tests.flows.flying import make_sky


@pytest.fixture
def agreement() -> Agreement:
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    return agree(partner, ordered=True)


@pytest.fixture
def stopped() -> OutboundMessage:
    """A message that stops its conversation, in which two wait behind it. Beside it one that has
    no message any more."""
    sky = make_sky(ordered=True)
    other = sky.submit(conversation_id="other")
    sky.poll()
    sky.answer(other)
    return stop(sky, "talk", behind=2)


@pytest.fixture
def hole(agreement: Agreement) -> InboundConversation:
    """Numbers 2, 3 and 7 wait for number 1. Beside it a conversation of which nobody is called."""
    take(agreement, 0, 3, 2, 7)
    take(agreement, 5, conversation="late")
    make_due(conversation_id="talk")
    watch()
    return InboundConversation.objects.get(conversation_id="talk")
