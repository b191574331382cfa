"""Messages and signals have no foreign keys; here most are stored without a lock on the link."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import IntegrityError, transaction

from msh.flows.receiving import ebms2 as receiving
from msh.flows.receiving.incoming import Incoming
from msh.models import InboundMessage, Signal
from msh.store.receiving import ebms2
from msh.store.receiving.senders import find_sender
from msh.wire.ebms2.envelope import parse
from partners.models import Agreement, Partner
from tests.api.test_bulk_at_once import another, waits_for_a_lock
from tests.endpoint.ebms2 import Send
from tests.peer.ebms2 import message, ping
from tests.store.test_parents_of_received import PARENTS, remove, remove_received
from tests.waiting import wait_until

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


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as thread:
        yield thread


@pytest.mark.parametrize("table", PARENTS)
@pytest.mark.parametrize("take", [remembered, locked])
def test_deletion_waits_for_a_message_that_is_stored(
    partner: Partner, thread: ThreadPoolExecutor, take: Callable[[Partner], None], table: str
) -> None:
    with another() as other:
        with transaction.atomic():
            take(partner)
            deletion = thread.submit(remove, other, table, partner)
            wait_until(waits_for_a_lock, what="the deletion, for the message")
        with pytest.raises(psycopg.errors.ForeignKeyViolation, match=f"{table} .* has messages"):
            deletion.result()


def test_deletion_of_a_link_waits_for_an_answer(
    partner: Partner, thread: ThreadPoolExecutor
) -> None:
    out = ping()
    with another() as other:
        with transaction.atomic():
            receiving.receive(partner, Incoming(out.content_type, out.body))
            deletion = thread.submit(remove, other, "msh_inboundlink", partner)
            wait_until(waits_for_a_lock, what="the deletion, for the Pong")
        with pytest.raises(psycopg.errors.ForeignKeyViolation, match="has signals"):
            deletion.result()


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
