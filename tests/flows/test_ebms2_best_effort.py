"""BestEffort messages in ebMS 2.0: one attempt, beside those that fly."""

import uuid

import pytest

from msh.flows.operations import cancel
from msh.flows.sending.prepare import SubmitRefused
from msh.models import Flight, OutboundMessage
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.history import Actor

from . import byhand
from .flying import SILENT, Sky, make_sky

pytestmark = pytest.mark.django_db

BEST_EFFORT = DeliverySemantics.BEST_EFFORT
ANN = Actor("ann", "she says so")


@pytest.fixture
def sky() -> Sky:
    return make_sky(our_role="urn:Us")


@pytest.mark.requirement("EB-078", "EB-081")
def test_it_asks_for_nothing_and_is_sent_once(sky: Sky) -> None:
    message, reliable = sky.submit(semantics=BEST_EFFORT), sky.submit()
    (job,) = byhand.poll()
    assert job.content_type.startswith("multipart/related")
    assert ("SOAPAction", '"ebXML"') in job.headers
    assert b"AckRequested" not in job.body
    assert b"DuplicateElimination" not in job.body
    assert b"urn:Us" in job.body
    byhand.end(job)
    assert sky.state(message) == "sent"
    assert byhand.poll() == []
    (flying,) = sky.poll()
    assert b"AckRequested" in flying.body
    assert Flight.objects.get().message_id == reliable.pk


@pytest.mark.requirement("EB-081")
def test_one_that_fails_is_not_sent_again(sky: Sky) -> None:
    message = sky.submit("", semantics=BEST_EFFORT)
    (job,) = byhand.poll()
    assert job.content_type == 'text/xml; charset="UTF-8"'
    byhand.end(job, SILENT)
    assert sky.state(message) == "failed"
    assert [kind for kind, _ in sky.events(message)] == ["failed"]
    assert byhand.poll() == []


@pytest.mark.requirement("EB-086")
def test_an_answer_to_it_counts_for_nothing(sky: Sky) -> None:
    message = sky.submit(semantics=BEST_EFFORT)
    (job,) = byhand.poll()
    byhand.end(job)
    assert not sky.answer(message)
    assert sky.state(message) == "sent"


def test_an_operator_cancels_one_that_is_queued(sky: Sky) -> None:
    message = sky.submit(semantics=BEST_EFFORT)
    cancel.cancel(message, None, ANN)
    assert sky.state(message) == "cancelled"
    assert byhand.poll() == []


@pytest.mark.parametrize(
    ("ack", "semantics"), [("always", "BestEffort"), ("never", "OnceAndOnlyOnce")]
)
def test_one_that_the_agreement_has_no_acknowledgments_for_is_refused(
    ack: str, semantics: str
) -> None:
    """One that asked and would not wait for the answer, or the other way round."""
    other = {"BestEffort": "OnceAndOnlyOnce", "OnceAndOnlyOnce": "BestEffort"}[semantics]
    sky = make_sky(ack=ack, semantics=other)
    with pytest.raises(SubmitRefused, match=f"has ack {ack}, which needs {other}"):
        sky.submit(semantics=DeliverySemantics(semantics))
    assert not OutboundMessage.objects.exists()


@pytest.mark.requirement("EB-033")
def test_conversation_of_its_own_is_no_message_id_and_the_same_when_submitted_again(
    sky: Sky,
) -> None:
    first, again = (sky.submit(message_id="m-1@us.example") for _ in range(2))
    other = sky.submit()
    assert (again.pk, again.conversation_id) == (first.pk, first.conversation_id)
    assert len({first.conversation_id, other.conversation_id, first.message_id}) == 3
    assert str(uuid.UUID(other.conversation_id)) == other.conversation_id
