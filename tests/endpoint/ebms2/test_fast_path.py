"""A partner that is remembered: what comes nearly always is taken in two statements."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from msh.flows.receiving import ebms2 as receiving
from msh.models import InboundMessage, Signal
from msh.store.receiving.senders import find_sender
from partners.models import Credential, Partner
from tests.endpoint.ebms2 import Send, answers, assert_fault
from tests.flows.costs import statements_of
from tests.peer.ebms2 import Outgoing, acknowledgment, message

pytestmark = pytest.mark.django_db(transaction=True)

TWICE = 20


@pytest.fixture(autouse=True)
def _remembered(send: Send) -> Iterator[None]:
    for _ in range(2):
        assert send(message()).status == 204
    yield
    assert not Signal.objects.filter(kind="Acknowledgement", body=None).exists()


def found() -> Partner:
    partner = find_sender("Bearer ebms2")
    assert partner is not None
    return partner


def statements(out: Outgoing, status: int | None) -> int:
    """Of the fast path; `status` None: it leaves the request to the other."""
    partner = found()
    answered: list[int | None] = []

    def take() -> None:
        answer = receiving.receive_fast_path(partner, out.content_type, out.body)
        answered.append(answer.status if answer else None)

    count = len(statements_of(take))
    assert answered == [status]
    return count


def test_new_message_is_two_statements() -> None:
    assert statements(message(), 204) == 2
    assert statements(message(payloads=()), 204) == 2


def test_all_else_is_left_to_the_path_with_a_lock() -> None:
    out = message()
    assert statements(out, 204) == 2
    for other in (out, message(ack_requested=""), message(time_to_live="2020-01-01T00:00:00Z")):
        assert statements(other, None) == 1
    assert statements(message(cpa_id="cpa-none"), None) == 1
    assert statements(message(timestamp="never"), None) == 0
    assert statements(acknowledgment("m1"), 204) > 1


@pytest.mark.requirement("EB-040", "EB-113")
def test_message_about_to_expire_is_taken_under_the_lock() -> None:
    """Else one of two copies could be taken while the other is refused for its TimeToLive."""
    soon, later = (f"{datetime.now(UTC) + timedelta(seconds=s):%FT%TZ}" for s in (50, 90))
    assert statements(message(time_to_live=soon), None) == 1
    assert statements(message(time_to_live=later), 204) == 2


@pytest.mark.requirement("EB-191")
def test_partner_that_has_changed_is_found_anew(send: Send, ebms2: Partner) -> None:
    Partner.objects.filter(pk=ebms2.pk).update(allowed_networks="192.0.2.0/24")
    assert_fault(send(message()), 403, "Client")

    Partner.objects.filter(pk=ebms2.pk).update(allowed_networks="")
    assert send(message()).status == 204
    Credential.objects.all().delete()
    assert_fault(send(message()), 401, "Client")


@pytest.mark.requirement("EB-113")
def test_two_copies_at_one_moment_are_one_message_with_one_answer(send: Send) -> None:
    barrier = threading.Barrier(2)

    def post(out: Outgoing) -> int:
        barrier.wait()
        return send(out).status

    with ThreadPoolExecutor(2) as pool:
        for _ in range(TWICE):
            out = message()
            assert list(pool.map(post, [out, out.but(boundary="second-copy")])) == [204, 204]
            signal = Signal.objects.get(ref_to_message_id=out.message_id)
            assert signal.pending == 2
            assert len(answers(out)) == 1
            stored = InboundMessage.objects.get(message_id=out.message_id)
            assert stored.duplicates == 1
