"""One search over everything by id; lists without rows say what was searched."""

import pytest
from django.test import Client
from django.urls import reverse

from msh.models import InboundMessage, OutboundMessage
from partners.models import Partner
from tests.admin.conftest import client_of, url
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

SEARCH = "/admin/search-all/"


@pytest.fixture
def world() -> World:
    made = make_world()
    made.submit(message_id="both@ways", conversation_id="talk")
    made.settle()
    made.submit(message_id="only@out", conversation_id="talk")
    return made


def test_one_hit_is_opened(administrator: Client, world: World) -> None:
    message = OutboundMessage.objects.get(message_id="only@out")
    found = administrator.get(SEARCH, {"q": " only@out "})
    assert found.headers["Location"] == url(OutboundMessage, "change", message.pk)
    partner = administrator.get(SEARCH, {"q": world.there.name})
    assert partner.headers["Location"] == reverse("partner_page", args=[world.there.pk])


def test_both_directions_are_found(administrator: Client, world: World) -> None:
    page = administrator.get(SEARCH, {"q": "both@ways"}).content.decode()
    for model in (OutboundMessage, InboundMessage):
        row = model.objects.get(message_id="both@ways")
        assert url(model, "change", row.pk) in page
    talk = administrator.get(SEARCH, {"q": "talk"}).content.decode()
    assert "only@out" in talk
    assert "both@ways" in talk


def test_nothing_says_what_was_searched(administrator: Client, world: World) -> None:
    page = administrator.get(SEARCH, {"q": "only@ou<"}).content.decode()
    assert "Nothing has exactly this id or name" in page
    assert "only@ou&lt;" in page
    assert "parts of a MessageId or ConversationId are not found" in page


def test_only_what_the_user_may_see_is_searched(world: World) -> None:
    client = client_of("carl", "view_inboundmessage")
    inbound = InboundMessage.objects.get(message_id="both@ways")
    found = client.get(SEARCH, {"q": "both@ways"})
    assert found.headers["Location"] == url(InboundMessage, "change", inbound.pk)
    assert client.get(SEARCH, {"q": world.there.name}).status_code == 200


def test_an_empty_list_says_why(administrator: Client, world: World) -> None:
    where = url(OutboundMessage, "changelist")
    mistyped = administrator.get(where, {"q": "mistyped"}).content.decode()
    assert "No outbound messages found" in mistyped
    assert "Complete MessageId, ConversationId or business key" in mistyped
    assert f"{SEARCH}?q=mistyped" in mistyped
    filtered = administrator.get(where, {"state": "cancelled"}).content.decode()
    assert "The filters select no row." in filtered
    empty = administrator.get(url(Partner, "changelist"), {"q": "zzz"}).content.decode()
    assert "No partners found" in empty


def test_every_page_has_the_search(administrator: Client) -> None:
    page = administrator.get(reverse("admin:index")).content.decode()
    assert f'action="{SEARCH}"' in page
    assert 'role="search"' in page
