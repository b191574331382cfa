"""A message of ours that fails and the conversation that it stops have one cause: one call."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from msh.alerts.flows.notify_operators import notify_operators
from msh.alerts.models import AlertRecipient, OperatorNotice
from msh.alerts.rules.beside import is_said_beside
from msh.flows.operations import change_incident
from msh.models import Incident
from msh.protocol.kinds import IncidentKind
from msh.store.history import Actor
from tests.admin.conftest import REFUSED, client_of
from tests.flows.flying import Sky, make_sky
from tests.peer import Peer

from .conftest import bodies, minutes_pass, recipient

pytestmark = pytest.mark.django_db

STOPPED, REFUSED_KIND = IncidentKind.CONVERSATION_STOPPED, IncidentKind.REFUSED_BY_PEER
EXPIRED, ALONE = IncidentKind.MESSAGE_EXPIRED, IncidentKind.WENT_AHEAD_ALONE


def fail(sky: Sky, conversation: str) -> None:
    _, job = sky.start(conversation_id=conversation)
    sky.end(job, REFUSED)


def kinds_called(hook: Peer) -> list[str]:
    made = OperatorNotice.objects.order_by("pk").values_list("kind", flat=True)
    assert sum(len(body["notices"]) for body in bodies(hook)) == len(made)
    return list(made)


@pytest.fixture
def sky(hook: Peer) -> Sky:
    recipient("ops", url=hook.address)
    return make_sky(ordered=True)


def test_message_and_the_conversation_that_it_stops_are_one_call(sky: Sky, hook: Peer) -> None:
    fail(sky, "talk")
    assert sky.incidents() == [STOPPED, REFUSED_KIND]

    notify_operators()
    notify_operators()

    assert kinds_called(hook) == [REFUSED_KIND]
    stopped = Incident.objects.get(kind=STOPPED)
    page = _page(
        client_of("vic", "view_incident", "view_outboundmessage", "view_outboundlink"), stopped
    )
    assert "Included in the alert about" in page
    assert reverse("admin:msh_incident_change", args=[Incident.objects.get(kind=REFUSED_KIND).pk])


def test_conversation_is_called_about_if_the_message_was_before(sky: Sky, hook: Peer) -> None:
    """The incident of an earlier message is still open, and counts this one."""
    fail(sky, "talk")
    Incident.objects.filter(kind=STOPPED).delete()
    notify_operators()
    fail(sky, "other")

    notify_operators()

    assert kinds_called(hook) == [REFUSED_KIND, STOPPED]


@pytest.mark.parametrize("settle", [change_incident.take, change_incident.resolve])
def test_conversation_is_called_about_when_the_message_is_settled(
    sky: Sky, hook: Peer, settle: Callable[[Incident, Actor], None]
) -> None:
    """It still stands, and nobody has taken it."""
    AlertRecipient.objects.update(wait=10)
    fail(sky, "talk")
    for _ in range(2):
        notify_operators()
        minutes_pass()
    assert kinds_called(hook) == [REFUSED_KIND] * 2

    settle(Incident.objects.get(kind=REFUSED_KIND), Actor("ann", "I call them"))
    notify_operators()

    assert kinds_called(hook) == [REFUSED_KIND, REFUSED_KIND, STOPPED]


@pytest.mark.parametrize(
    ("kind", "beside", "said"),
    [
        (STOPPED, [REFUSED_KIND], True),
        (REFUSED_KIND, [STOPPED], False),
        (STOPPED, [EXPIRED], False),
        (EXPIRED, [STOPPED], True),
        (STOPPED, [], False),
        (EXPIRED, [REFUSED_KIND], False),
        (ALONE, [STOPPED], False),
        (STOPPED, [ALONE], False),
    ],
)
def test_the_worse_of_the_two_is_called_about(kind: str, beside: list[str], said: bool) -> None:
    assert is_said_beside(kind, beside) is said


def _page(client: Client, incident: Incident) -> str:
    where = reverse("admin:msh_incident_change", args=[incident.pk])
    return client.get(where).content.decode()
