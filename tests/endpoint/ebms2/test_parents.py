"""Messages and signals have no foreign keys; here most are stored without a lock on the link."""

from collections.abc import Callable

import pytest
from django.db import IntegrityError

from msh.flows.receiving import ebms2 as receiving
from msh.flows.receiving.incoming import Incoming
from msh.models import InboundMessage, Signal
from msh.store.receiving import ebms2
from msh.store.receiving.senders import find_sender
from msh.wire.ebms2.envelope import parse
from partners.models import Agreement, Partner
from tests.endpoint.ebms2 import Send
from tests.peer.ebms2 import message, ping
from tests.sessions import meet
from tests.store.test_parents_of_received import PARENTS, remove, remove_received

pytestmark = pytest.mark.django_db(transaction=True)


def remembered(partner: Partner) -> None:
    out = message()
    assert receiving.receive_fast_path(partner, Incoming(out.content_type, out.body))


def locked(partner: Partner) -> None:
    out = message()
    receiving.receive(partner, Incoming(out.content_type, out.body))


@pytest.fixture
def partner(send: Send, ebms2: Partner) -> Partner:
    """It is remembered, and what has come is pruned."""
    for _ in range(2):
        assert send(message()).status == 204
    remove_received()
    partner = find_sender("Bearer ebms2")
    assert partner is not None
    return partner


@PARENTS
@pytest.mark.parametrize("take", [remembered, locked])
def test_deletion_waits_for_a_message_that_is_stored(
    partner: Partner, take: Callable[[Partner], None], table: str
) -> None:
    with pytest.raises(IntegrityError, match=f"{table} .* has messages"):
        meet(lambda: take(partner), lambda: remove(table, partner))


def test_deletion_of_a_link_waits_for_an_answer(partner: Partner) -> None:
    out = ping()
    with pytest.raises(IntegrityError, match="has signals"):
        meet(
            lambda: receiving.receive(partner, Incoming(out.content_type, out.body)),
            lambda: remove("msh_inboundlink", partner),
        )


def test_message_is_not_stored_under_an_agreement_that_was_deleted_meanwhile(
    partner: Partner,
) -> None:
    out = message()
    received = parse(out.content_type, out.body)
    found = ebms2.attribution_under(Agreement.objects.get())
    Agreement.objects.all().delete()
    with pytest.raises(IntegrityError, match="agreement_id"):
        ebms2.receive_message(found, received)
    assert not InboundMessage.objects.exists()
    assert not Signal.objects.exists()
