"""Conversations that are received in order, and two sessions at a time: wherever they meet."""

from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from django.db import transaction

from msh.flows.errors import NotPossible
from msh.flows.operations.change_conversation import skip_missing, start_order_in
from msh.flows.operations.watch import call_for_holes
from msh.flows.receiving.ebms2 import receive, receive_fast_path
from msh.flows.receiving.incoming import Incoming
from msh.models import InboundConversation, InboundMessage, Incident
from msh.store.operations.operator_actions import open_links
from msh.store.operations.retention import Retention, remove
from msh.store.operations.retention_sql import kinds
from msh.store.receiving.senders import find_sender
from partners.models import Agreement, Partner, digest_of
from tests.endpoint.ebms2 import agree
from tests.peer.ebms2 import message, message_order

from .test_lock_order import ANN, LONG_AGO, Act, _statements_are_counted, cross_everywhere

__all__ = ["_statements_are_counted"]

pytestmark = pytest.mark.django_db(transaction=True)


def new_agreement() -> Agreement:
    name = f"partner-{Partner.objects.count()}"
    partner = Partner.objects.create(name=name, uri=f"http://{name}.example/ebms/")
    partner.credentials.create(sha256=digest_of(name))
    open_links(partner)
    return agree(partner, tpa_id=name, their_party="222222222", our_party=name, ordered=True)


def arrival(
    agreement: Agreement, number: int, conversation: str = "talk", *, at_once: bool = False
) -> Act:
    out = message(
        message_id=f"{agreement.tpa_id}-{conversation}-{number}",
        to_party=agreement.our_party,
        conversation_id=conversation,
        cpa_id=agreement.tpa_id,
        extra=message_order(number, "Continue" if number else "Reset"),
    )
    incoming = Incoming(out.content_type, out.body)
    if not at_once:
        return partial(receive, agreement.partner, incoming)
    partner = find_sender(f"Bearer {agreement.partner}")
    assert partner is not None
    return partial(receive_fast_path, partner, incoming)


def with_holes(*conversations: str) -> Agreement:
    """Of each the numbers 0 and 2 are here, and the hole is due."""
    agreement = new_agreement()
    for conversation in conversations:
        for number in (0, 2):
            arrival(agreement, number, conversation)()
    conversations_of = InboundConversation.objects.filter(agreement=agreement)
    conversations_of.update(due="2026-01-01T00:00Z")
    return agreement


@pytest.mark.requirement("EB-132")
def test_incident_is_open_as_long_as_a_conversation_lacks_a_number() -> None:
    made: list[Agreement] = []

    def prepare() -> tuple[Act, Act]:
        agreement = with_holes("talk", "other")
        talk = InboundConversation.objects.filter(agreement=agreement, conversation_id="talk")
        talk.update(due=None, called=True)
        times = {"opened_at": LONG_AGO, "last_at": LONG_AGO}
        what = {"direction": "in", "kind": "predecessor_missing"}
        Incident.objects.create(partner=agreement.partner, **what, **times)
        made.append(agreement)
        return arrival(agreement, 1), call_for_holes

    assert cross_everywhere(prepare) > 1
    assert cross_everywhere(lambda: prepare()[::-1]) > 1
    call_for_holes()
    for agreement in made:
        called = InboundConversation.objects.filter(agreement=agreement, called=True)
        assert list(called.values_list("conversation_id", flat=True)) == ["other"]
        opened = Incident.objects.filter(partner=agreement.partner, resolved_at=None)
        assert opened.count() == 1


@pytest.mark.requirement("EB-127", "EB-132")
def test_message_crosses_an_operator_who_skips_it() -> None:
    def prepare() -> tuple[Act, Act]:
        agreement = with_holes("talk")
        return arrival(agreement, 1), partial(skip_if_possible, agreement)

    assert cross_everywhere(prepare) > 1
    assert cross_everywhere(lambda: prepare()[::-1]) > 1
    for conversation in InboundConversation.objects.all():
        messages = conversation.messages.order_by("turn", "id")
        assert {one.state for one in messages} == {"accepted"}
        in_order = sorted(messages, key=lambda one: one.turn or one.pk)
        assert [one.order_number for one in in_order] in ([0, 1, 2], [0, 2])
        assert conversation.next_number == 3


@pytest.mark.requirement("EB-130")
def test_first_message_crosses_an_operator_who_lets_it_begin_there() -> None:
    def prepare() -> tuple[Act, Act]:
        agreement = new_agreement()
        return arrival(agreement, 5), partial(start_order_in, agreement, "talk", 4, ANN)

    assert cross_everywhere(prepare) > 1
    assert {one.next_number for one in InboundConversation.objects.all()} == {6}
    assert {one.state for one in InboundMessage.objects.all()} == {"accepted"}


def skip_if_possible(agreement: Agreement) -> None:
    with suppress(NotPossible):  # the message was first
        skip_missing(agreement, "talk", ANN)


@pytest.mark.requirement("EB-102")
@pytest.mark.parametrize("at_once", [False, True])
def test_message_crosses_the_removal_of_its_conversation(at_once: bool) -> None:
    def prepare() -> tuple[Act, Act]:
        agreement = new_agreement()
        arrival(agreement, 0)()
        InboundMessage.objects.filter(agreement=agreement).update(ordered_in=None)
        Agreement.objects.update(persist_duration=1)
        InboundConversation.objects.update(last_at="2020-01-01T00:00Z")
        return arrival(agreement, 1, at_once=at_once), remove_conversations

    assert cross_everywhere(prepare) > 1
    assert cross_everywhere(lambda: prepare()[::-1]) > 1
    rows = set(InboundConversation.objects.values_list("pk", flat=True))
    for one in InboundMessage.objects.filter(order_number=1).select_related("ordered_in"):
        assert one.ordered_in_id in rows
        assert one.ordered_in is not None
        assert {None: "held", 2: "accepted"}[one.ordered_in.next_number] == one.state


def remove_conversations() -> None:
    day = timedelta(days=1)
    with transaction.atomic():
        remove(kinds(heard=False)["conversations from partners"], Retention(day, day, day), 0, 10)
