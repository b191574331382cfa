"""How messages that fly are shown to who knows nothing of flights."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from msh.api.documents import LINK, OUTBOUND
from msh.flows.operations.inspection.why_not_sent import explanation_of
from msh.models import Flight, OutboundLink, OutboundMessage, shown_state

from .flying import SILENT, STATES, Sky, make_sky, sky_of_five, start_window

pytestmark = pytest.mark.django_db


def shown(*command: str) -> list[dict[str, Any]]:
    out = StringIO()
    call_command(*command, "--json", stdout=out)
    rows: list[dict[str, Any]] = json.loads(out.getvalue())
    return rows


@pytest.fixture
def sky() -> Sky:
    return sky_of_five()


def test_states_have_the_words_of_scripts(sky: Sky) -> None:
    assert [row["state"] for row in shown("messages")] == STATES
    states = OutboundMessage.objects.order_by("pk").values_list(OUTBOUND["state"])
    assert [state for (state,) in states] == STATES
    for of_second in ("waiting", "ready"):  # its next copy waits for a worker
        Flight.objects.filter(attempt=1).update(state=of_second)
        for state in STATES:
            found = OutboundMessage.objects.in_state(state).values_list(shown_state())
            assert list(found) == [(state,)]


def test_a_link_counts_its_flights(sky: Sky) -> None:
    row = shown("links")[0]
    assert (row["queued"], row["under_way"], row["held"]) == (1, 1, 1)
    assert OutboundLink.objects.values_list(LINK["queued"]).get() == (1,)


def test_each_is_explained(sky: Sky) -> None:
    _, in_flight, held, queued, _ = OutboundMessage.objects.order_by("pk")
    assert explanation_of(in_flight.pk).startswith("Attempt 1 was started; waiting for its")
    assert explanation_of(held.pk).startswith("An operator holds it.")
    assert "is waiting for a worker, or for a place" in explanation_of(queued.pk)


def test_while_the_partner_cannot_be_reached_that_is_the_explanation() -> None:
    sky = make_sky(probe_interval=30)
    messages = [sky.submit() for _ in range(9)]
    while sky.link.state != "suspended":
        for job in sky.poll():
            sky.end(job, SILENT)
        sky.let_pass(61)  # it is not for eight failures alone
    explained = explanation_of(messages[-1].pk)
    assert explained.startswith("No connection to the partner (8 attempts in a row were not")
    assert "). The next probe is due at" in explained
    start_window(sky.partner)
    explained = explanation_of(messages[-1].pk)
    assert "). No probe is sent while the maintenance window runs." in explained
