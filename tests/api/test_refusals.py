"""`refusals`: messages that we refused for good, and what takes a refusal back."""

import pytest

from msh.models import History, Signal
from tests.api.application import Application
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.endpoint.ebms2 import kept_refusal
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

MAY = ("view_signal", "take_back_refusal_signal")
REASON = {"reason": "our clock was wrong"}


@pytest.fixture
def operator(token: Tokens) -> Application:
    return token("operate", may=MAY)


def test_refusals_that_are_kept(operator: Application) -> None:
    world = make_world()
    world.submit()
    world.settle()
    first, second = kept_refusal(), kept_refusal("lab")

    page = operator.get("refusals").json

    assert page["next"] is None
    assert [one["id"] for one in page["results"]] == [first.pk, second.pk]
    about = {"partner": "clinic", "message_id": "late@clinic", "tpa_id": "cpa-clinic"}
    assert page["results"][0].items() >= about.items()
    assert page["results"][0]["code"] == "TimeToLiveExpired"
    assert page["results"][0]["description"] == first.description
    assert page["results"][0]["refused_at"]

    def found(**query: object) -> list[int]:
        return [one["id"] for one in operator.get("refusals", **query).json["results"]]

    assert found(partner="lab") == [second.pk]
    assert found(message_id="late@clinic") == [first.pk]
    assert found(message_id="late@clinic", partner="lab") == []
    assert found(limit=1) == [first.pk]
    assert found(after=first.pk) == [second.pk]


def test_refusal_is_taken_back(operator: Application) -> None:
    refusal = kept_refusal()

    answer = operator.post(f"refusals/{refusal.pk}/take-back", REASON)

    assert answer.status == 200
    assert answer.json == {
        "id": refusal.pk,
        "partner": "clinic",
        "message_id": "late@clinic",
        "refused": refusal.description,
        "text": "The next copy of the message is judged anew. It was refused:"
        f" {refusal.description}.",
    }
    assert Signal.objects.get().content_digest is None
    entry = History.objects.get(event="RefusalTakenBack")
    assert entry.actor == operator.name
    assert entry.detail.endswith(f"our clock was wrong (API token {operator.name})")
    assert operator.get("refusals").json["results"] == []
    again = operator.post(f"refusals/{refusal.pk}/take-back", REASON)
    assert_problem(again, 409, "No refusal of a message late@clinic of partner clinic is kept")


def test_refusals_are_listed_for_those_who_may(token: Tokens) -> None:
    assert_problem(token("operate").get("refusals"), 403, "view_signal")


def test_what_is_no_refusal_cannot_be_taken_back(operator: Application) -> None:
    world = make_world()
    world.submit()
    world.settle()
    acknowledgement = Signal.objects.filter(link__partner=world.here).get()
    answer = operator.post(f"refusals/{acknowledgement.pk}/take-back", REASON)
    assert_problem(answer, 404)
