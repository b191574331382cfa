"""The list and the page of links from partners."""

import re
from datetime import timedelta

import pytest
from django.db.models import F
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.models import Consumer, ConsumerKind, Delivery, InboundLink, InboundMessage, OutboundLink
from msh.store.operations.operator_actions import open_links
from partners.models import Partner
from tests.admin.conftest import page_of, table_of, url
from tests.admin.many import standing_deliveries
from tests.delivery.desk import consumer
from tests.flows.world import World

pytestmark = pytest.mark.django_db


def test_an_inbound_link_says_what_is_expected_next(world: World, administrator: Client) -> None:
    open_links(world.here)
    link = InboundLink.objects.get(partner=world.here)
    where = reverse("admin:msh_inboundlink_change", args=[link.pk])
    page = administrator.get(where).content.decode()
    assert "No messages accepted yet." in page
    assert "Messages per minute: unlimited. Undelivered messages: unlimited." in page
    Partner.objects.filter(pk=world.here.pk).update(rate_limit=60)
    assert "Messages per minute: at most 60." in administrator.get(where).content.decode()

    message = world.submit()
    world.settle()
    page = administrator.get(reverse("admin:msh_inboundlink_changelist")).content.decode()

    assert message.message_id in page
    assert 'data-label="Expected number">2<' in page
    InboundLink.objects.filter(pk=link.pk).update(last_number=999_999_999)
    page = administrator.get(reverse("admin:msh_inboundlink_changelist")).content.decode()
    assert 'data-label="Expected number">1<' in page


def test_inbound_page_shows_the_first_undelivered_message(
    world: World, administrator: Client
) -> None:
    first, _ = world.submit(), world.submit()
    world.settle()
    link = InboundLink.objects.get(partner=world.here)
    where = reverse("admin:msh_inboundlink_change", args=[link.pk])

    page = administrator.get(where).content.decode()

    assert "Last accepted 2, expecting 3; 2 undelivered" in page
    waits = InboundMessage.objects.get(message_id=first.message_id)
    assert reverse("admin:msh_inboundmessage_change", args=[waits.pk]) in page
    assert "tpa-1: accept" in page.lower()


def test_inbound_page_shows_arrivals_and_pending_signals(
    world: World, administrator: Client
) -> None:
    first, _ = world.submit(), world.submit()
    world.settle()
    link = InboundLink.objects.get(partner=world.here)
    where = reverse("admin:msh_inboundlink_change", args=[link.pk])
    InboundMessage.objects.filter(message_id=first.message_id).update(state="delivered")
    assert table_of(administrator, link, "Pending").rows == []
    pending = link.signals.filter(ref_to_message_id=first.message_id)
    pending.update(pending=2, tries=7, last_detail="503 <closed>")

    page = administrator.get(where).content.decode()

    assert "2 in 10 min, 1 not delivered yet" in page
    assert "<dt>Pending Acknowledgements and Errors</dt><dd>1</dd>" in page
    (row,) = table_of(administrator, link, "Pending").rows
    assert row[3:5] == (2, 7)
    assert first.message_id in str(row[1])
    assert "503 &lt;closed&gt;" in str(row[6])


def test_the_history_of_a_link_says_that_the_partner_started_again(
    world: World,
    administrator: Client,
) -> None:
    for _ in range(2):
        world.submit()
    world.settle()
    OutboundLink.objects.filter(pk=world.link.pk).update(next_number=1, epoch=F("epoch") + 1)
    world.submit()
    world.settle()

    link = InboundLink.objects.get(partner=world.here)
    (row,) = table_of(administrator, link, "Link history").rows
    assert "the partner restarted its numbers at 1; the last accepted number was 2" in str(row)


def test_an_operator_learns_who_may_do_what_he_may_not(
    world: World, operator: Client, supervisor: Client
) -> None:
    world.submit()
    world.settle()
    link = InboundLink.objects.get(partner=world.here)
    guarded = (
        "You have no permission to use Allow reset, Hold resets, Set expected number, Hold"
        " deliveries: ask a user with the role Supervisor."
    )
    assert guarded in page_of(operator, link)
    assert "You have no permission to use" not in page_of(supervisor, link)


def test_a_link_says_at_once_that_no_consumer_takes_its_messages(
    world: World, operator: Client, administrator: Client
) -> None:
    message = world.submit()
    world.settle()
    link = InboundLink.objects.get(partner=world.here)
    page = page_of(operator, link)
    assert "Nothing is delivered: no consumer takes" in page
    assert "no permission to add a consumer: ask a user with the role Administrator." in page
    add = reverse("admin:msh_consumer_add")
    assert add not in page
    where = reverse("admin:msh_inboundlink_change", args=[link.pk])
    (jump,) = administrator.get(where).context["jumps"]
    assert jump.url.startswith(f"{add}?partner={world.here.pk}&")
    assert f"action={message.action}" in jump.url


def test_a_link_says_at_once_that_the_consumer_is_switched_off(
    world: World, operator: Client, administrator: Client
) -> None:
    message = world.submit()
    world.settle()
    link = InboundLink.objects.get(partner=world.here)
    consumer(ConsumerKind.PULL, name="everything")
    off = consumer(ConsumerKind.PULL, name="pricing", action=message.action, enabled=False)
    said = "is switched off."
    page = page_of(operator, link)
    assert "Nothing is delivered: consumer" in page
    assert said in page
    assert "no permission to switch consumer pricing on: ask a user with the role" in page
    settings = reverse("admin:msh_consumer_change", args=[off.pk])
    assert f'href="{settings}" id="jump:' in page_of(administrator, link)

    Consumer.objects.filter(pk=off.pk).update(enabled=True)
    assert said not in page_of(operator, link)
    Consumer.objects.filter(pk=off.pk).update(enabled=False)
    Partner.objects.filter(pk=world.here.pk).update(delivers=False)
    page = page_of(operator, link)
    assert said not in page, "that deliveries are held comes first"
    assert "Deliveries are held" in page


def test_a_link_says_when_the_application_last_fetched(world: World, operator: Client) -> None:
    world.submit()
    world.settle()
    link = InboundLink.objects.get(partner=world.here)
    orders = consumer(ConsumerKind.PULL, name="orders")
    silent = "the application of consumer"
    assert silent not in page_of(operator, link), "it may still come"
    long_ago = timezone.now() - timedelta(minutes=10)
    InboundMessage.objects.update(received_at=long_ago)
    page = page_of(operator, link)
    assert "has never fetched messages" in page
    assert "Ask those who run it whether it is running." in page
    settings = operator.get(url(Consumer, "change", orders.pk)).content.decode()
    assert "never" in operator.get(url(Consumer, "changelist")).content.decode()
    assert re.search(r"Last fetched.*?never", settings, re.DOTALL)

    Consumer.objects.update(fetched_at=timezone.now() - timedelta(hours=5))
    assert re.search(r"last fetched messages <time [^>]*>5 h[^<]* ago", page_of(operator, link))
    assert "5 h" in operator.get(url(Consumer, "changelist")).content.decode()
    Consumer.objects.update(fetched_at=timezone.now())
    assert silent not in page_of(operator, link)


def test_list_says_what_stands_still_and_since_when(world: World, operator: Client) -> None:
    """F2 of the review of the console: the backlog was a bare number."""
    open_links(world.there)
    doubtful = standing_deliveries("in_doubt", 2)
    partner = Partner.objects.filter(inbound_link=doubtful.message.link)
    where = url(InboundLink, "changelist")
    first, *_ = operator.get(where).context["cl"].result_list
    assert first == doubtful.message.link, "what has a backlog comes first"

    def row() -> str:
        page = operator.get(where).content.decode()
        return page[page.index('data-label="State"') :]

    assert re.search(r'"State">.*?in doubt.*?"Undelivered">3<.*?min ago', row(), re.DOTALL)
    in_doubt = InboundMessage.objects.filter(pk=doubtful.message_id)
    in_doubt.update(state="parked")
    assert re.search(r'"State">[^"]*?<[^>]*>\s*undelivered.*?"Undelivered">2<', row(), re.DOTALL)
    in_doubt.update(state="accepted")
    Delivery.objects.update(state="parked")
    assert re.search(r'"State">[^"]*?<[^>]*>\s*undelivered', row(), re.DOTALL)
    partner.update(delivers=False)
    assert "deliveries held" in row()
    partner.update(delivers=True)
    InboundMessage.objects.update(state="delivered")
    assert re.search(r'"State">-<.*?"Undelivered">0<.*?undelivered">-<', row(), re.DOTALL)
