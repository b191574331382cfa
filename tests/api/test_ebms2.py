"""Messages of ebMS 2.0 over the API: submitted, found, received, acted on."""

from typing import Any

import pytest

from msh.flows.receiving import ebms2
from tests.api.application import Application, order
from tests.api.test_access import assert_problem
from tests.flows.flying import STATES, Sky, make_sky, mirror_of, sky_of_five
from tests.flows.world import World

pytestmark = pytest.mark.django_db

ROLES = {"from_role": "urn:Buyer", "to_role": "urn:Seller", "service_type": "urn:kind"}


def note(sky: Sky, message_id: str, **fields: Any) -> dict[str, Any]:
    """A submission to the partner."""
    return {
        "tpa_id": sky.agreement.tpa_id,
        "partner": sky.partner.name,
        "service_interface": "urn:orders",
        "action": "New",
        "message_id": message_id,
        "payloads": [{"content": "<order/>"}],
        **fields,
    }


@pytest.mark.requirement("EB-031", "EB-033")
def test_roles_and_service_type_go_from_submission_to_feed(shop: Application) -> None:
    """Those of the agreement, unless the message names others."""
    sky = make_sky(our_role="urn:Us", their_role="urn:Them", service_type="urn:type")
    mirror = mirror_of(sky)
    of_agreement = {"from_role": "urn:Us", "to_role": "urn:Them", "service_type": "urn:type"}
    usual, other = note(sky, "m-1"), note(sky, "m-2", conversation_id="talk", **ROLES)
    assert of_agreement.items() <= shop.post("messages", usual).json.items()
    assert ROLES.items() <= shop.post("messages", other).json.items()
    assert_problem(shop.post("messages", {**other, "to_role": "urn:Agent"}), 409, "other content")

    for job in sky.poll():
        assert ebms2.receive(mirror, job.content_type, job.body).status == 204

    first, second = shop.get("inbound").json["results"]
    assert of_agreement.items() <= first.items()
    assert {**ROLES, "conversation_id": "talk"}.items() <= second.items()
    (found,) = shop.get("messages", conversation_id="talk").json["results"]
    assert ROLES.items() <= found.items()


def test_the_draft_has_no_roles(world: World, shop: Application) -> None:
    answer = shop.post("messages", order(world, "m-1", from_role="urn:Buyer"))
    assert_problem(answer, 422, "of dialect trp have none")
    assert answer.json["field"] == "from_role"
    assert shop.post("messages", order(world, "m-1")).json["from_role"] == ""


def test_messages_are_found_by_the_states_that_are_shown(shop: Application) -> None:
    sky_of_five()
    for state in STATES:
        (found,) = shop.get("messages", state=state).json["results"]
        assert found["state"] == state
