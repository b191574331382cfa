"""The history as an audit: the acts of people are found among all that the MSH does by itself."""

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from msh.flows.operations import change_link
from msh.models import History
from msh.store.history import Actor
from tests.admin.messages.test_search import looked_at, plan_of
from tests.flows.world import World, make_world
from tests.sql import analyze

pytestmark = pytest.mark.django_db

LIST = reverse("admin:msh_history_changelist")

MANY = 20_000

_FILL = """
    INSERT INTO msh_history
        (at, actor, partner_id, direction, subject, message_id, event, from_state, to_state, detail)
    SELECT now(), CASE WHEN n %% 5000 = 0 THEN 'bob' WHEN n %% 2000 = 0 THEN 'ann' ELSE 'msh' END,
           %s, 'out', 'message', 'm-' || n, 'MessageSubmitted', '', 'queued', ''
    FROM generate_series(1, %s) n
"""


def test_acts_of_people_are_found(world: World, administrator: Client) -> None:
    world.submit()
    world.settle()
    change_link.suspend(world.there, Actor("ann", "their data centre moves"))
    change_link.resume(world.there, Actor("bob", "it has moved"))

    def actors(**query: str) -> list[str]:
        return [row.actor for row in administrator.get(LIST, query).context["cl"].result_list]

    assert set(actors()) == {"msh", "ann", "bob"}
    assert actors(by="person") == ["bob", "ann"]
    assert actors(actor="ann") == ["ann"]
    assert actors(actor="eve") == []


def test_acts_of_people_are_read_from_an_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute(_FILL, [make_world().there.pk, MANY])
        analyze("msh_history")
    searches = {
        "people": History.objects.by_persons(),
        "one": History.objects.by_persons("bob"),
        "nobody": History.objects.by_persons("eve"),
    }

    read = {name: looked_at(plan_of(found)) for name, found in searches.items()}

    assert {name: count for name, count in read.items() if count > 100} == {}
