"""Messages of ebMS 2.0 over the API: submitted, found, received, acted on."""

from typing import Any
from urllib.parse import quote

import pytest

from msh.flows.receiving import ebms2
from msh.flows.receiving.incoming import Incoming
from msh.models import Flight
from msh.protocol.reason import Refusal
from tests.api.application import Answer, Application, order, results
from tests.api.conftest import Tokens
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
    wrong = {**other, "to_role": "urn:Agent"}
    assert_problem(shop.post("messages", wrong), 409, code=Refusal.MESSAGE_ID_REUSED)

    for job in sky.poll():
        assert ebms2.receive(mirror, Incoming(job.content_type, job.body)).status == 204

    first, second = shop.get("inbound").json["results"]
    assert of_agreement.items() <= first.items()
    assert {**ROLES, "conversation_id": "talk"}.items() <= second.items()
    (found,) = shop.get("messages", conversation_id="talk").json["results"]
    assert ROLES.items() <= found.items()


@pytest.mark.requirement("EB-201")
def test_what_no_channel_lets_us_send_is_refused_one_by_one_and_in_bulk(shop: Application) -> None:
    answer = {"direction": "in", "service": "urn:orders", "action": "Answer"}
    sky = make_sky(channels=[answer])
    why = "service_interface 'urn:orders', action 'New': agreement {} lists nothing that we send"
    why = why.format(sky.agreement)
    refused = shop.post("messages", note(sky, "m-1"))
    assert_problem(refused, 422, why)
    assert refused.json["field"] == "service_interface"
    (line,) = shop.bulk([note(sky, "m-2")]).lines
    assert (line["result"], line["reason"]) == ("refused", why)
    assert shop.get("messages").json["results"] == []


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
        shown = shop.get(f"messages/{quote(found['message_id'], safe='')}").json
        assert {name: shown[name] for name in found} == found


VERBS = ("suspend", "resume", "send_now", "reset_retries", "cancel")
MAY = tuple(f"{verb}_outboundlink" for verb in VERBS)


@pytest.mark.parametrize("ordered", [False, True])
def test_messages_in_bulk_are_kept_as_one_alone_is(shop: Application, ordered: bool) -> None:
    """Column by column, but for ids, times and the boundary."""
    alone, among = make_sky(ordered=ordered), make_sky(ordered=ordered)
    kinds = {"m-1": ROLES, "m-2": {"semantics": "BestEffort"}, "m-3": {}}
    for message_id, fields in kinds.items():
        assert shop.post("messages", note(alone, message_id, **fields)).status == 201
    lines = [note(among, message_id, **fields) for message_id, fields in kinds.items()]
    assert results(shop.bulk(lines)) == ["accepted"] * 3
    assert results(shop.bulk(lines)) == ["known"] * 3

    def rows(sky: Sky) -> list[dict[str, Any]]:
        messages = list(sky.link.messages.order_by("pk").values())
        flights = list(Flight.objects.filter(link=sky.link).values())
        own = {"id", "message_id", "link_id", "agreement_id", "boundary", "content_digest", "due"}
        own |= {"submitted_at", "size"}
        return [{k: v for k, v in row.items() if k not in own} for row in (*messages, *flights)]

    assert rows(among) == rows(alone)
    assert [row["state"] for row in rows(among)] == ["flying", "queued", "flying", "ready", "ready"]
    assert [job.key.message_id for job in among.poll()] == ["m-1", "m-3"] * 2  # type: ignore[attr-defined]


@pytest.mark.requirement("EB-092")
def test_an_operator_acts_on_one_message(token: Tokens) -> None:
    sky = make_sky(retries=0, on_failure="hold")
    message, other = sky.submit(message_id="a/b"), sky.submit()
    operator = token("operate", may=("view_outboundmessage", *MAY))

    def act(verb: str, **fields: str) -> Answer:
        return operator.post(f"messages/a/b/{verb}", {"reason": "agreed", **fields})

    about = {"message_id": "a/b", "partner": sky.partner.name}
    assert act("suspend").json == {
        **about,
        "state": "held",
        "text": "It is held. No copy of it is sent until it is resumed.",
    }
    assert_problem(act("suspend"), 409, "Cannot hold message a/b: it is held")
    assert_problem(act("resume", verdict="received"), 422, "resume takes none")
    (job,) = sky.poll()
    assert job.key.message_id == other.message_id  # type: ignore[attr-defined]
    assert act("resume").json["state"] == "queued"
    (job,) = sky.poll()
    sky.end(job)
    assert act("send-now").json["state"] == "in_flight"
    (again,) = sky.poll()
    assert again.body == job.body
    text = act("reset-retries").json["text"]
    assert text.endswith("Its retry counter is 0; its deadline stays.")
    assert_problem(act("cancel"), 409, "did the partner receive it?")
    assert act("cancel", verdict="unknown").json == {
        **about,
        "state": "cancelled",
        "text": "Cancelled. Its sender is notified.",
    }
    assert ("MessageCancelled", "in_flight", "cancelled") in sky.history(message)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("without", ["verb", "view"])
def test_an_action_needs_the_permissions_of_the_console(
    token: Tokens, verb: str, without: str
) -> None:
    sky = make_sky()
    sky.submit(message_id="m-1")
    may = "view_outboundmessage" if without == "verb" else f"{verb}_outboundlink"
    path = f"messages/m-1/{verb.replace('_', '-')}"
    answer = token("operate", may=(may,)).post(path, {"reason": "agreed"})
    assert_problem(answer, 403, "msh.view_outboundmessage" if without == "view" else verb)
    assert not sky.flight(sky.link.messages.get()).attempt  # type: ignore[union-attr]


def test_a_message_of_the_draft_is_cancelled_and_nothing_else(world: World, token: Tokens) -> None:
    world.submit(message_id="m-1")
    operator = token("operate", may=("view_outboundmessage", *MAY))
    answer = operator.post("messages/m-1/suspend", {"reason": "agreed"})
    assert_problem(answer, 409, "use the actions of the link")
    assert operator.post("messages/m-1/cancel", {"reason": "x"}).json["state"] == "cancelled"
    assert_problem(operator.post("messages/m-2/cancel", {"reason": "x"}), 404)
