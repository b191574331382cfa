"""One search over everything by id; lists without rows say what was searched."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from msh.flows.operations.inspection.causes import CAUSES
from msh.models import (
    ApiToken,
    Consumer,
    InboundMessage,
    Incident,
    OutboundLink,
    OutboundMessage,
)
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
    assert "Nothing was found for" in page
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


def test_what_has_one_partners_name_is_that_partner(administrator: Client, world: World) -> None:
    """Its incidents have it, too; part of a name lists both, each with its state."""
    Partner.objects.filter(pk=world.there.pk).update(name="acme", display_name="Acme Ltd")
    Partner.objects.filter(pk=world.here.pk).update(name="acme-2")
    world.poll()
    OutboundLink.objects.filter(partner=world.there).update(retries_spent=1)
    now = timezone.now()
    Incident.objects.create(
        partner=world.there, direction="in", kind="no_consumer", opened_at=now, last_at=now
    )

    for name in ("Acme", "acme ltd"):
        found = administrator.get(SEARCH, {"q": name})
        assert found.headers["Location"] == reverse("partner_page", args=[world.there.pk])

    page = administrator.get(SEARCH, {"q": "acm"})
    shown = [strip_tags(str(cell)) for table in page.context["tables"] for _, cell in table.rows]
    words = " ".join(" ".join(shown).split())
    assert "retrying" in words
    assert "open" in words
    assert CAUSES["no_consumer"].title in words


def test_incidents_are_found_by_their_words(administrator: Client, world: World) -> None:
    now = timezone.now()
    kept = Incident.objects.create(
        partner=world.there,
        direction="in",
        kind="no_consumer",
        detail="the token expired",
        opened_at=now,
        last_at=now,
    )
    for term in ("token exp", CAUSES["no_consumer"].title.upper()):
        found = administrator.get(SEARCH, {"q": term})
        assert found.headers["Location"] == url(Incident, "change", kept.pk)


def test_what_a_user_may_not_see_is_named_with_the_role_that_may(
    administrator: Client, operator: Client
) -> None:
    user = User.objects.create_user("shop-app")
    token = ApiToken.objects.create(name="shop", user=user, scopes=["submit"])
    Consumer.objects.create(name="shop", kind="pull", enabled=False)

    page = administrator.get(SEARCH, {"q": "shop"}).content.decode()
    assert url(ApiToken, "change", token.pk) in page
    assert "Not searched" not in page

    page = operator.get(SEARCH, {"q": "shop"}, follow=True).content.decode()
    assert url(ApiToken, "change", token.pk) not in page
    page = operator.get(SEARCH, {"q": "nothing-like-that"}).content.decode()
    assert "Not searched, because you have no permission" in page
    assert "API tokens (role Administrator)" in page
