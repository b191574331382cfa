"""The list of consumers says how each is doing, and leads to its deliveries."""

from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from msh.models import Consumer, ConsumerKind, Delivery, InboundMessage
from tests.admin.conftest import page_of, url
from tests.delivery.desk import Desk, consumer, receive
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def row(client: Client) -> str:
    listed = client.get(url(Consumer, "changelist")).content.decode()
    return listed.split('id="result_list"')[1]


def delivered(system: Consumer, *ends: tuple[str, datetime]) -> None:
    """A delivery of a message each, in this state since then."""
    for (state, at), message in zip(ends, receive(make_world(), len(ends)), strict=True):
        Delivery.objects.create(
            consumer=system, message=message, state=state, attempt=1, started_at=at, ended_at=at
        )


def test_one_that_needs_a_decision(administrator: Client) -> None:
    system = consumer(ConsumerKind.PULL, name="erp")
    delivered(system, ("blocked", timezone.now()), ("parked", timezone.now()))
    shown = row(administrator)
    assert "needs a decision" in shown
    assert "2 undecided" in shown
    where = f"{url(Delivery, 'changelist')}?is=undecided&consumer__id__exact={system.pk}"
    listed = administrator.get(where).context["cl"].result_list
    assert {one.state for one in listed} == {"blocked", "parked"}
    assert "2 undecided" in page_of(administrator, system)


def test_one_that_rejects_is_not_ok(administrator: Client) -> None:
    system = consumer(ConsumerKind.PULL, name="billing")
    delivered(system, ("completed", timezone.now()), ("rejected", timezone.now()))
    shown = row(administrator)
    assert "rejects" in shown
    assert "the last one was rejected" in shown
    assert f"state__exact=rejected&amp;consumer__id__exact={system.pk}" in shown


def test_the_last_completed_is_the_newest(administrator: Client) -> None:
    system = consumer(ConsumerKind.PULL, name="erp")
    now = timezone.now()
    old, new = now - timedelta(days=3), now - timedelta(minutes=5)
    delivered(system, ("completed", old), ("completed", new))
    assert "5 min ago" in row(administrator)


def test_one_that_works_and_one_that_is_off(administrator: Client) -> None:
    consumer(ConsumerKind.IN_PROCESS)
    receive(make_world(), 1)
    Desk().settle()
    shown = row(administrator)
    assert ">ok<" in "".join(shown.split())
    assert " ago</time>" in shown
    Consumer.objects.update(enabled=False)
    assert ">off<" in "".join(row(administrator).split())


def test_one_is_added_and_has_no_state_yet(administrator: Client) -> None:
    page = administrator.get(url(Consumer, "add"))
    assert page.status_code == 200
    assert "Open deliveries" not in page.content.decode()


def test_when_one_was_fetched_is_a_time_and_no_mark_up(administrator: Client) -> None:
    """Its destination was `last fetched: <time datetime="…">`."""
    consumer(ConsumerKind.PULL, name="archive", fetched_at=timezone.now())
    shown = row(administrator)
    assert "&lt;time" not in shown
    assert "last fetched: <time" in shown


def test_the_list_is_sorted_by_what_is_open_and_by_what_was_completed(
    administrator: Client,
) -> None:
    now = timezone.now()
    idle, busy = (consumer(ConsumerKind.PULL, name=name, action=name) for name in ("idle", "busy"))
    delivered(busy, ("blocked", now), ("completed", now - timedelta(days=1)))
    Delivery.objects.create(
        consumer=idle,
        message=InboundMessage.objects.latest("pk"),
        state="completed",
        attempt=1,
        started_at=now,
        ended_at=now,
    )
    where = url(Consumer, "changelist")
    page = administrator.get(where)
    columns = {name: at for at, name in enumerate(page.context["cl"].list_display)}
    for column, first in (("waiting", busy), ("condition", idle)):
        ordered = administrator.get(where, {"o": f"-{columns[column]}"})
        assert ordered.context["cl"].result_list[0] == first, column
