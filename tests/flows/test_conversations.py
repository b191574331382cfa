"""A partner may send all its messages under one ConversationId."""

import pytest

from tests.flows.costs import cost, multiply
from tests.flows.world import World
from tests.sql import analyze

pytestmark = pytest.mark.django_db

INSERT = """
    INSERT INTO msh_outboundmessage (link_id, agreement_id, message_id, semantics, state,
        conversation_id, service_interface, action, ref_to_message_id, content_digest, boundary,
        size, submitted_at)
    SELECT link_id, agreement_id, 'one more', semantics, state, conversation_id, service_interface,
        action, ref_to_message_id, content_digest, boundary, size, submitted_at
    FROM msh_outboundmessage ORDER BY id LIMIT 1
"""


def test_messages_of_one_conversation_do_not_slow_down_the_next_one(world: World) -> None:
    message = world.submit(message_id="m0", conversation_id="always the same")
    few = cost(INSERT, ())
    multiply(message, 30_000, message_id="'m-' || n")
    analyze("msh_outboundmessage")
    assert cost(INSERT, ()) < few + 40
