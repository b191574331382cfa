"""A partner that is remembered: what comes nearly always is taken in one statement."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import connection
from django.db.models import Model
from pytest_django.fixtures import Settings

from msh.flows.receiving import ebms2 as receiving
from msh.flows.receiving.incoming import Answer, Incoming
from msh.models import History, InboundConversation, InboundLink, InboundMessage, Signal
from msh.store.engine import Call
from msh.store.receiving import ebms2_fast_path
from msh.store.receiving.ebms2_sql import KnownRow
from msh.store.receiving.senders import find_sender
from msh.wire.ebms2 import signature
from msh.wire.ebms2.envelope import parse
from partners.models import Agreement, Credential, OwnIdentity, Partner
from tests.endpoint.ebms2 import Send, answers, assert_fault
from tests.endpoint.ebms2.test_signatures import signed
from tests.flows.costs import statements_of
from tests.keys import environment, new_key, pem_of
from tests.peer.ebms2 import Outgoing, ack_requested, acknowledgment, message, message_order
from tests.sessions import meet

pytestmark = pytest.mark.django_db(transaction=True)

TWICE = 20


@pytest.fixture(autouse=True)
def _remembered(send: Send) -> Iterator[None]:
    for _ in range(2):
        assert send(message()).status == 204
    statements(message(), 204)  # in this session
    yield
    assert not Signal.objects.filter(kind="Acknowledgement", body=None).exists()


def found() -> Partner:
    partner = find_sender("Bearer ebms2")
    assert partner is not None
    return partner


def statements(out: Outgoing, status: int | None) -> int:
    """Of the fast path; `status` None: it leaves the request to the view."""
    return len(_statements(out, status))


def is_locked(out: Outgoing, status: int) -> bool:
    """Whether the fast path takes it under the lock of its link."""
    return any("UPDATE OF link" in one.statement.sql for one in _statements(out, status))


def _statements(out: Outgoing, status: int | None) -> list[Call[Any]]:
    partner = found()
    answered: list[int | None] = []

    def take() -> None:
        answer = receiving.receive_fast_path(partner, Incoming(out.content_type, out.body))
        answered.append(answer.status if answer else None)

    run = statements_of(take)
    assert answered == [status]
    return run


def test_new_message_is_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    assert statements(message(), 204) == 1
    assert not is_locked(message(payloads=()), 204)
    monkeypatch.setattr(ebms2_fast_path, "FRESH", 0.0)
    assert statements(message(), 204) == 2


def test_all_else_is_taken_under_the_lock() -> None:
    """By the agreement that was read, without finding the partner or reading the bytes again."""
    out = message()
    assert not is_locked(out, 204)
    assert is_locked(out, 204)
    for other in (message(ack_requested=""), message(time_to_live="2020-01-01T00:00:00Z")):
        assert is_locked(other, 204)
    assert statements(message(cpa_id="cpa-none"), None) == 1
    assert statements(message(timestamp="never"), None) == 0
    assert statements(acknowledgment("m1"), 204) > 1


@pytest.mark.requirement("EB-113", "EB-165")
def test_signed_message_is_one_statement_and_verified_once(
    ebms2: Partner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy, too, which is taken under the lock."""
    Agreement.objects.filter(partner=ebms2).update(signed=True, certificate=pem_of(new_key("them")))
    verify = Mock(side_effect=signature.verified)
    monkeypatch.setattr(signature, "verified", verify)
    assert statements(signed(message()), 204) > 1  # what is cached has changed
    out = signed(message())
    assert statements(out, 204) == 1
    assert verify.call_count == 2
    assert is_locked(out, 204)
    assert verify.call_count == 3
    assert InboundMessage.objects.get(message_id=out.message_id).duplicates == 1


@pytest.mark.requirement("EB-099")
def test_key_of_ours_that_has_gone_is_noticed_under_the_lock(
    ebms2: Partner, settings: Settings, tmp_path: Path
) -> None:
    for name, files in environment(tmp_path, [new_key("us")]).items():
        setattr(settings, name, [files])
    Agreement.objects.filter(partner=ebms2).update(ack_signed=True)
    wanted = ack_requested().replace("false", "true")
    statements(message(ack_requested=wanted), 204)
    assert statements(message(ack_requested=wanted), 204) == 1
    settings.MSH_SIGNING_KEY = settings.MSH_SIGNING_CERTIFICATE = []
    out = message(ack_requested=wanted)
    assert is_locked(out, 204)
    (answer,) = answers(out)
    errors = [(code, place.rpartition("/")[2]) for code, place in answer.errors]
    assert (answer.action, errors) == ("MessageError", [("SecurityFailure", "eb:AckRequested")])


@pytest.mark.requirement("EB-040", "EB-113")
def test_message_about_to_expire_is_taken_under_the_lock() -> None:
    """Else one of two copies could be taken while the other is refused for its TimeToLive."""
    soon, later = (f"{datetime.now(UTC) + timedelta(seconds=s):%FT%TZ}" for s in (50, 90))
    assert is_locked(message(time_to_live=soon), 204)
    assert not is_locked(message(time_to_live=later), 204)


TABLES: tuple[type[Model], ...] = (Agreement, Partner, Credential, OwnIdentity)


@pytest.mark.parametrize("table", TABLES)
def test_every_column_of_what_was_read_is_proven(table: type[Model], ebms2: Partner) -> None:
    """Whatever is written of these rows, nothing is accepted by what was remembered before."""
    if table is OwnIdentity:
        OwnIdentity.objects.create(msh_uri=ebms2.our_uri_or_default)
    partner, out = found(), message()
    received = parse(out.content_type, out.body)
    agreement = ebms2_fast_path._agreements[partner.pk, received.message.header.cpa_id]
    unknown = KnownRow(None, None, None, None, None, None, None, agreement.now)
    for column in (f'"{field.column}"' for field in table._meta.concrete_fields):
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table._meta.db_table} SET {column} = {column}")
        assert not ebms2_fast_path._accept_under(partner, agreement, unknown, received), column


@pytest.mark.requirement("EB-110")
def test_message_that_was_refused_is_refused_again_though_all_else_is_remembered() -> None:
    """The first answer stays: it is not looked up before, but by the statement that would store."""
    out = message()
    link = InboundLink.objects.get()
    refused = Signal.objects.create(
        link=link,
        kind="Error",
        code="Inconsistent",
        ref_to_message_id=out.message_id,
        content_digest=b"x",
        first_at=datetime.now(UTC),
        due=datetime.now(UTC),
        expires_at=datetime.now(UTC),
    )
    before = InboundMessage.objects.count()
    assert is_locked(out, 204)
    assert InboundMessage.objects.count() == before
    refused.delete()
    assert statements(out, 204) == 1


def test_limits_of_the_partner_count(ebms2: Partner) -> None:
    """For who was remembered with them, too."""
    Partner.objects.filter(pk=ebms2.pk).update(rate_limit=4)
    assert not is_locked(message(), 204)
    assert is_locked(message(), 503)


@pytest.mark.requirement("EB-191")
def test_signal_of_a_partner_that_has_changed_is_not_taken(ebms2: Partner) -> None:
    partner, ack = found(), acknowledgment("m1")
    Partner.objects.filter(pk=ebms2.pk).update(allowed_networks="192.0.2.0/24")
    assert receiving.receive_fast_path(partner, Incoming(ack.content_type, ack.body)) is None


@pytest.mark.requirement("EB-191")
def test_partner_that_has_changed_is_found_anew(send: Send, ebms2: Partner) -> None:
    Partner.objects.filter(pk=ebms2.pk).update(allowed_networks="192.0.2.0/24")
    assert_fault(send(message()), 403, "Server")

    Partner.objects.filter(pk=ebms2.pk).update(allowed_networks="")
    assert send(message()).status == 204
    Credential.objects.all().delete()
    assert_fault(send(message()), 401, "Server")


@pytest.mark.requirement("EB-113")
def test_copy_that_comes_while_the_first_is_stored_is_taken_under_the_lock() -> None:
    out, partner = message(), found()
    take = partial(receiving.receive_fast_path, partner, Incoming(out.content_type, out.body))

    answer = meet(take, take)

    assert answer is not None
    assert (answer.status, answer.reason) == (204, "")
    assert InboundMessage.objects.get(message_id=out.message_id).duplicates == 1


@pytest.mark.requirement("EB-113")
def test_two_copies_at_one_moment_are_one_message_with_one_answer(send: Send) -> None:
    barrier = threading.Barrier(2)

    def post(out: Outgoing) -> int:
        barrier.wait(60)
        return send(out).status

    with ThreadPoolExecutor(2) as pool:
        for _ in range(TWICE):
            out = message()
            assert list(pool.map(post, [out, out.but(boundary="second-copy")])) == [204, 204]
            signal = Signal.objects.get(ref_to_message_id=out.message_id)
            assert signal.pending in (1, 2)  # the first may have been under way
            assert len(answers(out)) == 1
            stored = InboundMessage.objects.get(message_id=out.message_id)
            assert stored.duplicates == 1


@pytest.mark.requirement("EB-039", "EB-110")
def test_message_that_has_to_refer_to_a_known_one_is_taken_under_the_lock(ebms2: Partner) -> None:
    """Else one of two copies could be taken while the other is refused, because what they refer to
    comes between them."""
    first = message()
    assert statements(first, 204) == 1
    Agreement.objects.filter(partner=ebms2).update(check_ref_to=True)
    assert statements(message(), 204) == 3  # what is remembered fails
    assert is_locked(message(ref_to_message_id=first.message_id), 204)


# --- in the order of a conversation ---------------------------------------------------------------


def numbered(number: int, **fields: Any) -> Outgoing:
    status = "Continue" if number else "Reset"
    return message(extra=message_order(number, status), **fields)


@pytest.fixture
def conversation(send: Send, ebms2: Partner) -> InboundConversation:
    """Number 0 has come, and number 1 in this session, so that the conversation is cached."""
    ebms2.agreements.update(ordered=True)
    assert send(numbered(0)).status == 204
    assert not is_locked(numbered(1), 204)
    return InboundConversation.objects.get()


def accepted_numbers() -> list[int | None]:
    in_order = InboundMessage.objects.filter(ordered_in__isnull=False, state="accepted")
    return list(in_order.order_by("id").values_list("order_number", flat=True))


@pytest.mark.requirement("EB-127")
def test_next_message_of_a_conversation_is_one_statement(conversation: InboundConversation) -> None:
    out = numbered(2)

    assert statements(out, 204) == 1

    stored = InboundMessage.objects.get(message_id=out.message_id)
    assert (stored.state, stored.ordered_in, stored.order_number) == ("accepted", conversation, 2)
    assert stored.epoch is stored.sequence_number is None
    arrived = History.objects.get(message_id=out.message_id)
    assert (arrived.event, arrived.detail, arrived.at) == (
        *("MessageArrived", "number 2"),
        stored.received_at,
    )
    before, after = conversation, InboundConversation.objects.get()
    assert (before.next_number, after.next_number, after.last_at) == (2, 3, stored.received_at)
    assert [one.action for one in answers(out)] == ["Acknowledgment"]


@pytest.mark.requirement("EB-127", "EB-128", "EB-129")
def test_all_else_of_a_conversation_is_taken_under_the_lock(
    conversation: InboundConversation,
) -> None:
    copied = numbered(2)
    assert not is_locked(copied, 204)
    for other in (copied, numbered(4), numbered(1), numbered(0)):
        assert is_locked(other, 204)
    assert is_locked(numbered(3), 204)
    assert accepted_numbers() == [0, 1, 2, 4, 3]
    assert is_locked(numbered(0, conversation_id="another"), 204)
    assert statements(numbered(1, conversation_id="another"), 204) == 2 + 1
    assert statements(numbered(5), 204) == 2 + 1
    assert statements(numbered(2, conversation_id="another"), 204) == 1


@pytest.mark.usefixtures("conversation")
def test_every_column_of_the_conversation_is_proven() -> None:
    partner, out = found(), numbered(2)
    received = parse(out.content_type, out.body)
    agreement = ebms2_fast_path._agreements[partner.pk, received.message.header.cpa_id]
    unknown = KnownRow(None, None, None, None, None, None, None, agreement.now)
    for column in (f'"{field.column}"' for field in InboundConversation._meta.concrete_fields):
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE msh_inboundconversation SET {column} = {column}")
        assert not ebms2_fast_path._accept_under(partner, agreement, unknown, received), column
    assert accepted_numbers() == [0, 1]


def take(out: Outgoing) -> Answer | None:
    return receiving.receive_fast_path(found(), Incoming(out.content_type, out.body))


@pytest.mark.requirement("EB-128")
@pytest.mark.usefixtures("conversation")
def test_second_message_of_a_number_is_refused_though_both_came_at_one_moment() -> None:
    first, second = numbered(2), numbered(2)

    answer = meet(lambda: take(first), lambda: take(second))

    assert answer is not None
    assert "below the next number" in answer.reason
    assert accepted_numbers() == [0, 1, 2]


@pytest.mark.requirement("EB-129")
@pytest.mark.usefixtures("conversation")
def test_reset_that_comes_while_a_message_is_stored_sees_that_it_is_undelivered() -> None:
    """What is read under the lock of the link is read after the message was stored."""
    InboundMessage.objects.update(state="delivered", delivered_at=datetime.now(UTC))

    answer = meet(lambda: take(numbered(2)), lambda: take(numbered(0)))

    assert answer is not None
    assert answer.status == 503
    assert accepted_numbers() == [2]


@pytest.mark.usefixtures("conversation")
def test_conversation_of_a_server_that_was_restarted_is_read_anew() -> None:
    """Its transactions have numbers that were given before."""
    for key, cached in list(ebms2_fast_path._conversations.items()):
        ebms2_fast_path._conversations[key] = replace(cached, as_read="before")
    assert statements(numbered(2), 204) == 2 + 1
