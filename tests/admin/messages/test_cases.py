"""Public bug reports of other gateways, as far as they concern pages and acts of operators."""

import pytest
from django.test import Client

from msh.admin.framework.headline import ALARM
from msh.flows.errors import NotPossible
from msh.flows.operations import cancel
from msh.flows.operations.inspection.why_not_sent import explanation_of
from msh.models import Incident, OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.kinds import Verdict
from msh.store.history import Actor
from tests.admin.conftest import url, use
from tests.admin.messages.test_submit_again import copy_of, failed
from tests.flows.flying import Sky, make_sky
from tests.flows.world import World

pytestmark = pytest.mark.django_db

SENTENCE = "Bad Request: " + "validation of the profile failed. " * 18 + "and not urn:duns"


def shown(client: Client, row: OutboundMessage | OutboundLink | Incident) -> str:
    return client.get(url(type(row), "change", row.pk)).content.decode()


# --- refusal as plain text: the words reach the operator, and there is an act ---------------------
def test_words_of_a_refusal_are_shown_and_the_message_can_be_submitted_again(
    sky: Sky,
    supervisor: Client,
) -> None:
    message, job = sky.start()
    sky.end(job, AttemptResult(AttemptOutcome.REFUSED, status=400, detail=SENTENCE))
    assert len(sky.poll()) == 0  # no retry
    assert SENTENCE in explanation_of(message.pk)
    for row in (message, Incident.objects.get()):
        assert "and not urn:duns" in shown(supervisor, row)
    use(supervisor, "submit_again", message)
    assert copy_of(message).message_id in shown(supervisor, message)


# --- what became of several, and of one that was taken for lost -----------------------------------


def test_incident_is_resolved_when_all_of_it_were_submitted_again(
    sky: Sky, supervisor: Client
) -> None:
    some = [failed(sky) for _ in range(3)]
    for left, one in zip((1, 1, 0), some, strict=True):
        use(supervisor, "submit_again", one)
        assert Incident.objects.filter(resolved_at=None).count() == left
    assert Incident.objects.get().resolved_by == "sue"


def test_verdict_that_was_wrong_is_shown_loudly_at_both_messages(
    sky: Sky, supervisor: Client
) -> None:
    message, job = sky.start()
    sky.end(job, AttemptResult(AttemptOutcome.FAILED, detail="Cannot connect", body_sent=False))
    use(supervisor, "cancel", message, verdict="not_received")
    use(supervisor, "submit_again", message)
    sky.answer(message)
    sky.answer(message)  # the second is dropped
    message.refresh_from_db()
    assert (message.state, message.outcome) == ("cancelled", "received")
    for one in (message, copy_of(message)):
        page = supervisor.get(url(OutboundMessage, "change", one.pk))
        assert page.context["headline"].tone == ALARM
        assert "the same content twice" in page.content.decode()


# --- suspend while a retry is under way -----------------------------------------------------------
def test_page_says_that_a_copy_is_still_under_way(world: World, supervisor: Client) -> None:
    message, job = world.start()
    use(supervisor, "suspend", world.link)
    for row in (world.link, message):
        assert "One copy is still under way: its result counts." in shown(supervisor, row)
    assert world.poll() == []
    world.end(job)
    for row in (world.link, message):
        assert "still under way" not in shown(supervisor, row)


def test_held_message_says_that_a_copy_is_still_under_way(sky: Sky, supervisor: Client) -> None:
    message, job = sky.start()
    use(supervisor, "suspend", message)
    assert "One copy is still under way" in explanation_of(message.pk)
    sky.end(job)
    assert "still under way" not in explanation_of(message.pk)
    sky.answer(message)
    assert sky.state(message) == "acknowledged"


# --- cancelling what has ended: no verdict is recommended that is refused then --------------------
@pytest.mark.parametrize("verdict", [None, *Verdict])
def test_one_that_has_ended_is_not_cancelled_with_any_verdict(verdict: Verdict | None) -> None:
    message = failed(make_sky())
    with pytest.raises(NotPossible, match="is failed: it has already ended") as refused:
        cancel.cancel(message, verdict, Actor("sue", "no"))
    assert "verdict" not in str(refused.value)
