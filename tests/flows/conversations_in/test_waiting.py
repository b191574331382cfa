"""Conversations that we receive in order: what waits for a consumer, what is held, what is kept."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from msh.flows.operations.prune import prune_all
from msh.flows.receiving.ebms2 import receive
from msh.flows.receiving.incoming import Incoming
from msh.models import (
    Consumer,
    ConsumerKind,
    History,
    InboundConversation,
    InboundMessage,
    Incident,
)
from msh.statistics.models import Statistics, Unit
from msh.store.delivery import polling
from msh.store.delivery.polling_sql import AT_ONCE
from msh.store.delivery.unclaimed import alarm_unclaimed, first_unclaimed
from msh.store.operations.stuck_links import find_undelivered
from msh.store.sending.polling import Slots
from partners.models import Agreement, Partner
from tests.delivery.desk import consumer
from tests.endpoint.ebms2 import agree
from tests.flows.conversations_in.conversation import WHY, delivered, of, open_incidents, run, take
from tests.flows.feed_pages import read_page
from tests.peer.ebms2 import message, message_order
from tests.statistics.happenings import collect_all

pytestmark = pytest.mark.django_db


@pytest.mark.requirement("EB-126", "EB-134")
def test_conversations_of_two_agreements_are_two(agreement: Agreement) -> None:
    second = agree(agreement.partner, tpa_id="cpa-2", ordered=True)
    take(agreement, 0, 2)

    take(second, 0, 1, name="second")

    assert delivered() == ["talk-0", "second-0", "second-1"]


@pytest.mark.requirement("EB-127")
def test_the_feed_has_what_is_held_when_it_is_released(agreement: Agreement) -> None:
    take(agreement, 0, 2, 3)
    assert [one.message_id for one in read_page(0, 10)] == ["talk-0"]

    take(agreement, 1)

    assert [one.message_id for one in read_page(0, 10)] == [f"talk-{n}" for n in range(4)]


@pytest.mark.requirement("EB-127")
def test_what_is_held_is_counted_once_as_received(agreement: Agreement) -> None:
    take(agreement, 0, 2, 1)

    collect_all()

    minutes = Statistics.objects.filter(unit=Unit.MINUTE, partner=None)
    assert sum(one.received for one in minutes) == 3


def test_operator_is_called_for_a_conversation_that_no_consumer_takes(agreement: Agreement) -> None:
    Consumer.objects.all().delete()
    consumer(ConsumerKind.IN_PROCESS, name="others", service_interface="urn:example:others")
    take(agreement, 0)
    take(agreement, 0, conversation="other")

    assert alarm_unclaimed() == 1

    (incident,) = Incident.objects.filter(resolved_at=None)
    assert (incident.kind, incident.count) == ("no_consumer", 1)
    alarm_unclaimed()
    assert len(open_incidents()) == 1
    consumer(ConsumerKind.IN_PROCESS)
    alarm_unclaimed()
    assert open_incidents() == []


@pytest.mark.requirement("EB-131")
def test_what_is_held_counts_for_the_limits_of_the_partner(agreement: Agreement) -> None:
    Partner.objects.update(undelivered_limit=2)
    agreement.partner.refresh_from_db()
    take(agreement, 0, 2)
    out = message(message_id="beyond", extra=message_order(3), conversation_id="talk")

    assert receive(agreement.partner, Incoming(out.content_type, out.body)).status == 503
    take(agreement, 1)  # for the number that lacks there is room
    assert delivered() == ["talk-0", "talk-1", "talk-2"]


@pytest.mark.requirement("EB-134")
def test_conversations_that_wait_for_a_consumer_do_not_hide_others(agreement: Agreement) -> None:
    consumer(ConsumerKind.PULL, name="asks", service_interface="urn:example:asked")
    take(agreement, 0)
    multiply_conversations(AT_ONCE + 1, "urn:example:asked")
    take(agreement, 0, conversation="last")

    heads = polling.find_new_to_call((), (), 10)

    assert len({head.order_key for head in heads}) == 2
    assert delivered() == ["talk-0", "last-0"]


def heads_in_process() -> list[int]:
    return [head.message_key for head in polling.find_new_to_call((), (), 40)]


def heads_to_post() -> list[int]:
    return [head.message_key for head in polling.find_new_to_post((), Slots(40, 40))]


def heads_to_pull() -> list[int]:
    return polling.find_takeable(Consumer.objects.get(), 40)[1]


def replace_heads(keys: list[int]) -> None:
    """They are delivered, and each conversation has another message."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO msh_inboundmessage
                (link_id, agreement_id, message_id, semantics, state, conversation_id, action,
                 service_interface, ref_to_message_id, sent_at, received_at, content_digest, header,
                 ordered_in_id, order_number)
            SELECT link_id, agreement_id, message_id || '+', semantics, 'accepted',
                   conversation_id, action, service_interface, '', sent_at, received_at,
                   content_digest, header, ordered_in_id, order_number + 1
            FROM msh_inboundmessage WHERE id = ANY(%s)
            """,
            [keys],
        )
    InboundMessage.objects.filter(pk__in=keys).update(state="delivered")


@pytest.mark.requirement("EB-134")
@pytest.mark.parametrize(
    ("kind", "find"),
    [
        (ConsumerKind.IN_PROCESS, heads_in_process),
        (ConsumerKind.HTTP, heads_to_post),
        (ConsumerKind.PULL, heads_to_pull),
    ],
)
def test_conversations_that_never_end_do_not_delay_the_one_behind_them(
    agreement: Agreement, kind: ConsumerKind, find: Callable[[], list[int]]
) -> None:
    Consumer.objects.all().delete()
    consumer(kind)
    take(agreement, 0)
    service = InboundMessage.objects.get().service_interface
    multiply_conversations(AT_ONCE - 1, service)
    take(agreement, 0, conversation="last")
    last = InboundMessage.objects.get(message_id="last-0").pk
    with connection.cursor() as cursor:
        for plan in ("hashjoin", "mergejoin", "seqscan", "bitmapscan"):  # which sort by age
            cursor.execute(f"SET LOCAL enable_{plan} = off")

    for _ in range(6):
        found = find()
        assert len(found) == 40
        if last in found:
            break
        replace_heads(found)
    else:
        pytest.fail("240 heads were found, and never that of one of 101 conversations")


@pytest.mark.requirement("EB-134")
def test_operator_is_called_for_a_conversation_behind_many_others(agreement: Agreement) -> None:
    """For one that no consumer takes, and for one whose consumer takes nothing."""
    consumer(ConsumerKind.PULL, name="asks", service_interface="urn:example:asked")
    take(agreement, 0)
    multiply_conversations(AT_ONCE + 1, "urn:example:asked")
    assert delivered() == ["talk-0"]
    others = Consumer.objects.filter(kind=ConsumerKind.IN_PROCESS)
    others.update(service_interface="urn:example:other")
    take(agreement, 0, conversation="last")
    partner = agreement.partner_id

    assert alarm_unclaimed() == 1
    assert alarm_unclaimed() == 0
    assert Incident.objects.get().resolved_at is None, (
        "not before a consumer takes the last of them"
    )
    assert first_unclaimed([partner])[partner].action == "Order"

    others.update(service_interface="", enabled=False)
    assert alarm_unclaimed() == 0
    assert Incident.objects.get().resolved_at
    assert first_unclaimed([partner]) == {}
    last = InboundMessage.objects.filter(message_id="last-0")
    last.update(received_at="2026-01-01T00:00Z")
    (stuck,) = find_undelivered(timedelta(hours=1), 50).values()
    assert not stuck.enabled


def multiply_conversations(count: int, service: str) -> None:
    """As many copies of the first, each with one message that waits for its consumer."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH copies AS (
                INSERT INTO msh_inboundconversation
                    (link_id, agreement_id, conversation_id, next_number, last_at)
                SELECT link_id, agreement_id, 'copy-' || n, 1, last_at
                FROM msh_inboundconversation, generate_series(1, %s) n
                RETURNING id, conversation_id)
            INSERT INTO msh_inboundmessage
                (link_id, agreement_id, message_id, semantics, state, conversation_id, action,
                 service_interface, ref_to_message_id, sent_at, received_at, content_digest, header,
                 ordered_in_id, order_number)
            SELECT link_id, agreement_id, copies.conversation_id, semantics, 'accepted',
                   copies.conversation_id, action, %s, '', sent_at, received_at, content_digest,
                   header, copies.id, 0
            FROM msh_inboundmessage, copies
            """,
            [count, service],
        )


def test_released_message_is_not_stuck_at_once(agreement: Agreement) -> None:
    take(agreement, 0)
    delivered()
    take(agreement, 2)
    InboundMessage.objects.filter(state="held").update(received_at="2026-01-01T00:00Z")

    run("skip-missing", *WHY)
    History.objects.all().delete()  # an operator's act moves the link too

    assert find_undelivered(timedelta(minutes=1), 10) == {}
    InboundConversation.objects.update(released_at="2026-01-01T00:00Z")
    assert set(find_undelivered(timedelta(minutes=1), 10)) == {agreement.partner_id}


@pytest.mark.requirement("EB-102")
def test_conversation_that_counts_is_kept(agreement: Agreement) -> None:
    take(agreement, 0, 1)
    take(agreement, 0, 2, conversation="hole")
    take(agreement, 5, conversation="never begun")
    run("drop-held", *WHY, conversation="never begun")
    delivered()
    long_ago = "2020-01-01T00:00Z"
    InboundMessage.objects.exclude(state="held").update(delivered_at=long_ago)
    InboundConversation.objects.update(last_at=long_ago)

    removed = prune_all(clock_is_right=True)

    assert removed["conversations from partners"] == 1
    kept = InboundConversation.objects.order_by("pk").values_list("conversation_id", flat=True)
    assert list(kept) == ["talk", "hole"]
    take(agreement, 2)
    assert delivered()[-1] == "talk-2"
    InboundMessage.objects.exclude(state="held").update(delivered_at=long_ago)
    InboundConversation.objects.update(last_at=long_ago)

    Agreement.objects.update(persist_duration=700 * 86_400)
    InboundConversation.objects.update(last_at=timezone.now() - timedelta(days=600))
    removed = prune_all(clock_is_right=True)
    assert (removed["inbound messages"], removed["conversations from partners"]) == (1, 0)
    Agreement.objects.update(persist_duration=3600)
    assert prune_all(clock_is_right=True)["conversations from partners"] == 1

    assert [one.conversation_id for one in InboundConversation.objects.all()] == ["hole"]
    take(agreement, 3)  # it is held, and an operator called: nothing is delivered out of order
    assert of().next_number is None
