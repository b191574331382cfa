"""The page of a partner, its names in any script, and a message to try it."""

import re

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from msh.flows.operations import change_link
from msh.flows.operations.watch import watch
from msh.models import (
    ConsumerKind,
    Delivery,
    History,
    InboundMessage,
    OutboundLink,
    OutboundMessage,
)
from msh.protocol.kinds import DeliveryState
from msh.store.history import Actor
from msh.store.operations.operator_actions import Switch, open_links
from partners import export
from partners.models import Partner
from tests.admin.conftest import address, messages_of, submit, suspended_world, url
from tests.admin.many import UNAUTHORIZED, suspended_partners
from tests.delivery.desk import consumer
from tests.endpoint.ebms2 import agree
from tests.flows.conversations_in.conversation import make_due, take
from tests.flows.flying import REFUSED, make_sky
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

NAMES = ["Zürich Käse AG", "上海国际贸易有限公司", "بنك الشرق للتجارة", "می‌خواهم"]


def page_of(client: Client, partner: Partner) -> str:
    return client.get(reverse("partner_page", args=[partner.pk])).content.decode()


def test_one_page_has_both_directions_and_all_about_a_partner(administrator: Client) -> None:
    world = suspended_world(queued=2)
    partner = world.there
    Partner.objects.filter(pk=partner.pk).update(
        contact="Ana Ruiz", phone="+34 91 555 01 02", notes="weekdays only"
    )

    page = page_of(administrator, partner)

    assert all(text in page for text in ("Ana Ruiz", "+34 91 555 01 02", "weekdays only"))
    assert url(OutboundLink, "change", world.link.pk) in page
    assert "The partner refused the message permanently" in page
    assert "Recommended action" in page
    assert address("resume", world.link) in page
    assert address("send_test_message", world.agreement) in page
    assert reverse("admin:partners_agreement_connection", args=[world.agreement.pk]) in page
    assert reverse("admin:partners_partner_change", args=[partner.pk]) in page
    assert "Bearer token" in page


def head_of(client: Client, partner: Partner) -> tuple[str, str]:
    """Badge and sentence of its page, as text."""
    head = client.get(reverse("partner_page", args=[partner.pk])).context["headline"]
    return strip_tags(str(head.badge)).strip().lower(), strip_tags(str(head.sentence))


def test_the_state_of_a_partner_is_the_worst_of_both_directions(
    world: World, operator: Client
) -> None:
    open_links(world.there)
    open_links(world.here)
    (badge, sentence) = head_of(operator, world.there)
    assert (badge, "To the partner" in sentence) == ("idle", False)

    change_link.switch(world.there, Switch.ACCEPTS, on=False, actor=Actor("ole", "strike"))
    (badge, sentence) = head_of(operator, world.there)
    assert badge == "action required"
    assert sentence.startswith("Submissions to the partner are refused by an operator. To the")
    change_link.switch(world.there, Switch.ACCEPTS, on=True, actor=Actor("ole", "over"))

    world.submit()
    world.settle()
    (badge, sentence) = head_of(operator, world.here)
    assert badge == "action required"
    assert sentence.startswith("Nothing is delivered: no consumer takes")
    change_link.switch(world.here, Switch.DELIVERS, on=False, actor=Actor("ole", "strike"))
    (_, sentence) = head_of(operator, world.here)
    assert sentence.startswith("Deliveries of its messages are held by an operator.")
    assert "Nothing is delivered" not in sentence


def test_a_suspended_link_is_said_first(operator: Client) -> None:
    world = suspended_world()
    (badge, sentence) = head_of(operator, world.there)
    assert badge == "suspended"
    assert sentence.startswith("To the partner: ")
    assert sentence.endswith("Open incidents: 1.")


def test_stopped_conversations_are_in_the_state_of_the_partner(operator: Client) -> None:
    sky = make_sky(ordered=True)
    _, job = sky.start(conversation_id="talk")
    sky.end(job, REFUSED)
    (badge, sentence) = head_of(operator, sky.partner)
    assert (badge, sentence.startswith("Stopped conversations to the partner: 1.")) == (
        "action required",
        True,
    )


def test_deliveries_and_missing_messages_are_in_the_state_of_the_partner(operator: Client) -> None:
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    agreement = agree(partner, ordered=True)
    take(agreement, 0, 2)
    assert "lack a message" not in head_of(operator, partner)[1]
    make_due()
    watch()
    assert "Conversations from the partner that lack a message: 1." in head_of(operator, partner)[1]
    Delivery.objects.create(
        message=InboundMessage.objects.earliest("pk"),
        consumer=consumer(ConsumerKind.PULL),
        state=DeliveryState.BLOCKED,
        attempt=1,
        started_at=timezone.now(),
    )
    assert "Deliveries that need a decision: 1." in head_of(operator, partner)[1]


def test_a_partner_that_is_new_has_a_page_too(administrator: Client) -> None:
    new = Partner.objects.create(name="new", uri="http://new.example/")
    page = page_of(administrator, new)
    assert "No message was exchanged yet." in page
    assert "No agreement" in page


def test_the_breadcrumb_names_partners_once(world: World, administrator: Client) -> None:
    changing = administrator.get(reverse("admin:partners_partner_change", args=[world.there.pk]))
    for page in (page_of(administrator, world.there), changing.content.decode()):
        crumbs = re.findall(r'<a href="([^"]+)" class="align-middle [^>]+>\s*Partners\s*</a>', page)
        assert crumbs == [reverse("admin:partners_partner_changelist")]


def test_a_viewer_is_offered_nothing_that_he_may_not(viewer: Client) -> None:
    world = suspended_world(queued=0)
    page = page_of(viewer, world.there)
    assert address("resume", world.link) not in page
    assert "send test message" not in page
    assert "test connection" not in page
    assert reverse("admin:partners_partner_change", args=[world.there.pk]) not in page


def test_the_settings_are_offered_once(administrator: Client) -> None:
    (refused, other) = suspended_partners(1, UNAUTHORIZED) + suspended_partners(1)
    for link, titles in (refused, ["Partner settings"]), (other, ["Settings"]):
        page = administrator.get(reverse("partner_page", args=[link.partner_id]))
        jumps = page.context["jumps"]
        assert [jump.title for jump in jumps if "ettings" in jump.title][:-1] == titles


def test_without_the_permission_there_is_no_page() -> None:
    client = Client()
    nobody = User.objects.create_user("nora", is_staff=True)
    client.force_login(nobody, backend="django.contrib.auth.backends.ModelBackend")
    where = reverse("partner_page", args=[make_world().there.pk])
    assert client.get(where).status_code == 403


@pytest.mark.parametrize("name", NAMES)
def test_a_partner_is_shown_by_its_name_in_any_script(administrator: Client, name: str) -> None:
    world = suspended_world(queued=0)
    partner = world.there
    partner.display_name = name
    partner.full_clean()
    partner.save()

    lists = [reverse("admin:partners_partner_changelist"), url(OutboundLink, "changelist")]
    for where in lists:
        assert name in administrator.get(where).content.decode()
        assert partner.name in administrator.get(where, {"q": name}).content.decode()
    assert name in page_of(administrator, partner)
    (exported,) = (one for one in export.exported()["partners"] if one["name"] == partner.name)
    assert "display_name" not in exported


@pytest.mark.parametrize("name", ["acme\u202egpj", "ac\u200bme", " acme", "ac\nme"])
def test_a_name_that_hides_something_is_refused(name: str) -> None:
    partner = Partner(name="acme", uri="http://acme.example/", display_name=name)
    with pytest.raises(ValidationError, match="invisible"):
        partner.full_clean()


def test_a_test_message_is_sent_with_a_reason(world: World, supervisor: Client) -> None:
    fields = {"service_interface": "Orders", "action": "Try", "text": "is it there?"}

    response = submit(
        supervisor, address("send_test_message", world.agreement), "first contact", **fields
    )

    message = OutboundMessage.objects.get()
    assert message.message_id in messages_of(response)
    assert (message.service_interface, message.action) == ("Orders", "Try")
    (act,) = History.objects.by_persons()
    assert (act.actor, act.event, act.message_id) == ("sue", "TestSubmitted", message.message_id)
    assert "first contact" in act.detail
    assert world.settle() > 0
    assert world.received() == [message.message_id]


def test_a_test_message_that_is_refused_says_why(world: World, supervisor: Client) -> None:
    Partner.objects.filter(pk=world.there.pk).update(accepts=False)
    fields = {"service_interface": "Orders", "action": "Try", "text": "is it there?"}
    response = submit(supervisor, address("send_test_message", world.agreement), **fields)
    assert "are refused until an operator accepts them again" in messages_of(response)
    assert not OutboundMessage.objects.exists()
