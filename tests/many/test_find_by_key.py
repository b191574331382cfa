"""Messages are found by business key: in the console, through the API and by `trace`."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from msh import roles
from msh.business_keys.models import BusinessKey, KeyRule
from msh.flows.operations.prune import prune_all
from msh.models import (
    ConsumerKind,
    Delivery,
    InboundMessage,
    Incident,
    OutboundMessage,
    SettingChange,
)
from tests.admin.conftest import client_with_role, url
from tests.api.conftest import Tokens
from tests.delivery.desk import Desk, consumer
from tests.delivery.pruning import age
from tests.flows.world import World, make_world

from .test_index_keys import index, order, rule

pytestmark = pytest.mark.django_db

SEARCH = "/admin/search-all/"


@pytest.fixture
def world() -> World:
    """One message with the key 4711, delivered; and its incident."""
    made = make_world()
    consumer(ConsumerKind.IN_PROCESS)
    rule()
    made.submit(order(4711))
    made.submit(order(1))
    Desk().settle()
    made.settle()
    Desk().settle()
    index()
    return made


def page(client: Client, where: str, value: str) -> str:
    return client.get(where, {"q": value}).content.decode()


def test_the_search_finds_messages_deliveries_and_incidents(world: World) -> None:
    sent = OutboundMessage.objects.order_by("pk").first()
    received = InboundMessage.objects.order_by("pk").first()
    assert sent
    assert received
    incident = Incident.objects.create(
        partner=world.there, direction="out", kind="stuck", message_id=sent.message_id,
        opened_at=sent.submitted_at, last_at=sent.submitted_at,
    )  # fmt: skip
    found = page(client_with_role("ann", roles.OPERATOR), SEARCH, "4711")
    for row in (sent, received, received.deliveries.get(), incident):
        assert url(type(row), "change", row.pk) in found
    assert Delivery.objects.count() == 2


def test_a_key_is_payload_who_may_not_see_that_finds_nothing(world: World) -> None:
    viewer, operator = (
        client_with_role(name, role)
        for name, role in (("vera", roles.VIEWER), ("ann", roles.OPERATOR))
    )
    assert "Nothing was found for" in page(viewer, SEARCH, "4711")
    message = OutboundMessage.objects.order_by("pk").first()
    assert message
    where = url(OutboundMessage, "changelist")
    shown = url(OutboundMessage, "change", message.pk)
    assert shown in page(operator, where, "4711")
    assert shown not in page(viewer, where, "4711")
    assert "4711" in operator.get(shown).content.decode()
    assert "4711" not in viewer.get(shown).content.decode()


def test_the_api_finds_both_directions(world: World, token: Tokens) -> None:
    found = token("read", "read_payload").get("business-keys?value=4711")
    assert [(one["direction"], one["key"], one["state"]) for one in found.json["results"]] == [
        ("out", "order", "acknowledged"), ("in", "order", "delivered"),
    ]  # fmt: skip
    reader = token("read", "read_payload")
    assert reader.get("business-keys?value=4711&key=other").json == {"results": []}
    assert token("read").get("business-keys?value=4711").status == 403


def test_trace_takes_a_key(world: World) -> None:
    out = StringIO()
    call_command("trace", "4711", stdout=out)
    assert "MessageAccepted" in out.getvalue() or "acknowledged" in out.getvalue()
    world.submit(order(4711))
    index()
    out = StringIO()
    call_command("trace", "4711", stdout=out)
    assert out.getvalue().count("4711") == 3


def test_retention_removes_the_keys_with_the_message(world: World) -> None:
    KeyRule.objects.update(name="other")  # a key does not keep its rule as it was
    for _ in range(2):
        world.submit(order(2))
    Desk().settle()
    world.settle()
    Desk().settle()
    index()
    age()
    prune_all()
    left = {*OutboundMessage.objects.values_list("pk", flat=True)}
    assert left
    keyed = BusinessKey.objects.filter(outbound__isnull=False)
    assert {*keyed.values_list("outbound_id", flat=True)} == left


def test_a_rule_is_checked_recorded_and_cannot_be_moved(administrator: Client) -> None:
    where = url(KeyRule, "add")
    form = {"name": "invoice", "enabled": "on", "path": "/i:Invoice/ID", "reason": "asked by them"}
    refused = administrator.post(where, form).content.decode()
    assert "Add a line prefix=URI for each prefix" in refused
    administrator.post(where, {**form, "namespaces": "i=urn:x"})
    (row,) = KeyRule.objects.all()
    assert SettingChange.objects.filter(kind="Business key", name="invoice").count() == 1
    there = url(KeyRule, "change", row.pk)
    administrator.post(there, {**form, "path": "/other", "reason": "again"})
    row.refresh_from_db()
    assert (row.path, row.enabled) == ("/i:Invoice/ID", True)
    assert administrator.get(url(KeyRule, "delete", row.pk)).status_code == 403


def test_what_the_job_has_written_meanwhile_stays(
    administrator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = rule()
    check = KeyRule.clean

    def job(one: KeyRule) -> None:
        KeyRule.objects.update(inbound_before=7, outbound_before=0)
        check(one)

    monkeypatch.setattr(KeyRule, "clean", job)  # between the row's reading and writing
    administrator.post(url(KeyRule, "change", row.pk), {"reason": "off"})
    row.refresh_from_db()
    assert (row.enabled, row.inbound_before, row.outbound_before) == (False, 7, 0)


def test_lists_of_messages_begin_with_what_people_call_them(world: World) -> None:
    viewer = client_with_role("vera", roles.VIEWER)
    operator = client_with_role("ann", roles.OPERATOR)
    for model in (OutboundMessage, InboundMessage, Delivery):
        where = url(model, "changelist")
        shown = operator.get(where).context["cl"].list_display
        assert next(one for one in shown if one != "action_checkbox") == "keys", model
        assert 'data-copy="4711"' in operator.get(where).content.decode(), model
        assert "4711" not in viewer.get(where).content.decode(), model


def test_the_beginning_of_a_key_finds_what_no_whole_key_does(world: World) -> None:
    operator = client_with_role("ann", roles.OPERATOR)

    def found(term: str) -> int:
        listed = operator.get(url(OutboundMessage, "changelist"), {"q": term})
        return len(listed.context["cl"].result_list)

    assert [found(term) for term in ("4711", "471", "47", "711", "47_1", "4%1")] == [
        1,
        1,
        0,
        0,
        0,
        0,
    ]
