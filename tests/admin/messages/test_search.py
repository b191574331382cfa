"""Messages are found by what they are, and each search is answered by an index."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.urls import reverse

from msh.models import (
    Delivery,
    InboundMessage,
    OutboundMessage,
    Signal,
)
from msh.protocol.vocabulary import DeliverySemantics
from tests.flows.world import World, make_world
from tests.sql import analyze

pytestmark = pytest.mark.django_db

OUT = reverse("admin:msh_outboundmessage_changelist")

IN = reverse("admin:msh_inboundmessage_changelist")

MANY = 10_000

BEGIN = datetime.now(UTC) + timedelta(days=1)

_FILL = """
    INSERT INTO msh_{0}message (
        link_id, agreement_id, message_id, semantics, state, conversation_id, service_interface,
        action, ref_to_message_id, content_digest, epoch, sequence_number, {1})
    SELECT link.id, agreement.id, 'm-' || n, 'OnceAndOnlyOnce',
           CASE WHEN n %% 1000 = 0 THEN %s ELSE %s END,
           'c-' || n / 10, 'Orders', 'New', '', ''::bytea, 1, n, {2}
    FROM generate_series(1, %s) n
    JOIN msh_{0}link link ON link.partner_id = %s
    JOIN partners_agreement agreement ON agreement.partner_id = link.partner_id
    ORDER BY n
"""

# Of each hundred messages one: a third each waits for a place, for an Acknowledgment, is held.
_FLY = """
    INSERT INTO msh_flight (message_id, link_id, state, attempt, under_way, due)
    SELECT id, link_id, (ARRAY['ready', 'waiting', 'held'])[1 + n % 3], n % 3, n % 3 = 1,
           CASE WHEN n % 3 < 2 THEN now() END
    FROM (SELECT id, link_id, sequence_number / 100 AS n FROM msh_outboundmessage
          WHERE epoch = 2 AND sequence_number % 100 = 7) message
"""

_OUT = (
    "size, boundary, terms, submitted_at",
    "1, 'b', '{}', %s + n * interval '1 minute'",
)

_IN = ("header, sent_at, received_at", "''::bytea, now(), %s + n * interval '1 minute'")


@pytest.fixture
def world() -> World:
    """Two partners, and some messages between them."""
    world = make_world()
    world.submit(message_id="a id with blanks", conversation_id="talk")
    world.settle()
    world.submit(message_id="m2", conversation_id="talk")
    world.submit(message_id="m3", semantics=DeliverySemantics.BEST_EFFORT)
    return world


def found(client: Client, where: str = OUT, **query: Any) -> list[str]:
    response = client.get(where, query)
    return [message.message_id for message in response.context["cl"].result_list]


def test_by_ids(administrator: Client, world: World) -> None:
    assert found(administrator, q="a id with blanks") == ["a id with blanks"]
    assert found(administrator, IN, q=" a id with blanks ") == ["a id with blanks"]
    assert found(administrator, q="talk") == ["m2", "a id with blanks"]
    assert found(administrator, q="blanks") == []
    assert len(found(administrator, q="")) == 3


def test_by_agreement_partner_and_number(administrator: Client, world: World) -> None:
    other = make_world()
    other.agreement.tpa_id = "tpa-2"
    other.agreement.save()
    other.submit(message_id="o1")
    for job in other.poll():
        if job.partner_id == other.there.pk:
            other.hand_over(job)

    assert found(administrator, tpa_id="tpa-2") == ["o1"]
    assert found(administrator, tpa_id="tpa") == []
    assert found(administrator, link__partner__id__exact=other.there.pk) == ["o1"]
    assert found(administrator, number="1") == ["o1", "a id with blanks"]
    ours = world.there.pk
    assert found(administrator, number="1", link__partner__id__exact=ours) == ["a id with blanks"]
    assert found(administrator, IN, number="000000001") == ["a id with blanks"]


def test_by_state(administrator: Client, world: World) -> None:
    assert found(administrator, state__exact="queued") == ["m3", "m2"]
    assert found(administrator, state__exact="acknowledged") == ["a id with blanks"]
    world.poll()
    assert found(administrator, state__exact="in_flight") == ["m3", "m2"]
    assert found(administrator, state__exact="sent") == []
    OutboundMessage.objects.filter(message_id="m3").update(state="sent")
    assert found(administrator, state__exact="sent") == ["m3"]
    assert found(administrator, IN, state__exact="accepted") == ["a id with blanks"]


def test_by_time(administrator: Client, world: World) -> None:
    at = OutboundMessage.objects.get(message_id="m2").submitted_at
    before = (at - timedelta(seconds=1)).replace(tzinfo=None).isoformat()
    OutboundMessage.objects.filter(message_id="a id with blanks").update(
        submitted_at=at - timedelta(minutes=1)
    )

    assert found(administrator, since=before) == ["m3", "m2"]
    assert found(administrator, until=before) == ["a id with blanks"]
    assert found(administrator, IN, since=before, until=before) == []


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"number": "x"}, "x is not a SequenceNumber"),
        ({"number": "-1"}, "-1 is not a SequenceNumber"),
        ({"number": "1" * 30}, "is not a SequenceNumber"),
        ({"since": "last week"}, "last week is not a time"),
        ({"link__partner__id__exact": "acme"}, "acme is not the id of a partner"),
    ],
)
def test_invalid_search_is_refused_with_the_reason(
    administrator: Client, world: World, query: dict[str, str], why: str
) -> None:
    response = administrator.get(OUT, query)

    assert list(response.context["cl"].result_list) == []
    assert why in " ".join(str(one) for one in get_messages(response.wsgi_request))


def test_deliveries_and_signals_are_found_by_the_message(world: World) -> None:
    assert [one.ref_to_message_id for one in Signal.objects.with_ref("a id with blanks")] == [
        "a id with blanks"
    ]
    assert list(Signal.objects.with_ref("m2")) == []
    assert list(Delivery.objects.with_id("m2")) == []


def test_conversation_is_found_in_every_block_of_rows(world: World) -> None:
    message = OutboundMessage.objects.get(message_id="m2")
    for block in (2, 5):
        message.pk, message.message_id = block << 16, f"in {block}"
        message.save(force_insert=True)

    found = OutboundMessage.objects.in_conversation(message.conversation_id).order_by("pk")
    assert [one.message_id for one in found][-2:] == ["in 2", "in 5"]


@pytest.fixture
def many(world: World) -> World:
    """Thousands more, a minute each, with what the planner wants to know of them."""
    with connection.cursor() as cursor:
        # A look of the hot path, earlier in the test's one transaction, has switched it off.
        cursor.execute("SET LOCAL enable_bitmapscan TO DEFAULT")
        for kind, columns, partner, states in (
            ("outbound", _OUT, world.there, ("cancelled", "acknowledged")),
            ("inbound", _IN, world.here, ("parked", "delivered")),
        ):
            statement = _FILL.format(kind, *columns).replace("1, n,", "2, n,")
            cursor.execute(statement, [*states, BEGIN, MANY, partner.pk])
            cursor.execute(f"UPDATE msh_{kind}link SET epoch = 2")
            analyze(f"msh_{kind}message")
        cursor.execute(_FLY)
        cursor.execute(
            "UPDATE msh_outboundmessage SET state = 'flying' FROM msh_flight flight"
            " WHERE id = flight.message_id"
        )
        analyze("msh_flight")
    return world


def looked_at(plan: dict[str, Any]) -> int:
    """The most rows that any node of the plan took and threw away again, or gave."""
    dropped = plan.get("Rows Removed by Filter", 0) * plan["Actual Loops"]
    own = int(max(dropped, plan["Actual Rows"] * plan["Actual Loops"]))
    return max([own, *(looked_at(child) for child in plan.get("Plans", ()))])


@pytest.mark.parametrize("model", [OutboundMessage, InboundMessage])
def test_search_reads_only_rows_that_it_shows(many: World, model: Any) -> None:
    rows = model.objects
    partner = many.there if model is OutboundMessage else many.here
    middle = BEGIN + timedelta(minutes=MANY // 2)
    unusual = "cancelled" if model is OutboundMessage else "parked"
    rare = "sent" if model is OutboundMessage else "forwarded"
    searches = {
        "MessageId": rows.with_id("m-77"),
        "ConversationId": rows.with_id("c-77"),
        "nothing": rows.with_id("no such id"),
        "SequenceNumber": rows.numbered(5000),
        "partner": rows.of_partner(partner.pk),
        "TPAId": rows.under_tpa("tpa-1"),
        "unusual state": rows.in_state(unusual),
        "rare state": rows.in_state(rare),
        "until": rows.until(middle),
        "since": rows.since(middle),
        "an hour": rows.since(middle).until(middle + timedelta(hours=1)),
        "before all": rows.until(BEGIN - timedelta(days=100)),
    }
    if model is OutboundMessage:
        searches |= {state: rows.in_state(state) for state in ("queued", "in_flight", "held")}
    read = {name: looked_at(plan_of(found)) for name, found in searches.items()}
    # Which index is the cheaper one depends on how the rows lie on the disk: none reads them all.
    assert {name: count for name, count in read.items() if count > MANY / 4} == {}


def plan_of(found: Any) -> dict[str, Any]:
    """Of the first page of the list."""
    heavy = {OutboundMessage: ["head"], InboundMessage: ["header"]}
    page = found.order_by("-pk").defer(*heavy.get(found.model, ()))[:51]
    statement, parameters = page.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
        ((explained,),) = cursor.fetchall()
    plan = json.loads(explained) if isinstance(explained, str) else explained
    whole: dict[str, Any] = plan[0]["Plan"]
    return whole


def test_a_time_finds_the_same_rows_as_without_the_index(many: World) -> None:
    rows = OutboundMessage.objects
    for minutes in (-1, 0, 1, 59, 60, 7_345, MANY, MANY + 1, 10**6):
        at = BEGIN + timedelta(minutes=minutes)
        assert rows.until(at).count() == rows.filter(submitted_at__lte=at).count()
        assert rows.since(at).count() == rows.filter(submitted_at__gte=at).count()
