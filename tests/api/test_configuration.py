"""Partners and agreements are read and changed by an application."""

from typing import Any

import pytest

from msh.api.configuration import ObjectChange
from msh.flows.operations.configure import DOCUMENT_LIMIT, EXPORT_PERMISSIONS, IMPORT_PERMISSIONS
from msh.models import SettingChange
from msh.protocol.reason import Refusal
from partners.export import exported
from partners.models import Credential, Partner
from tests.api.application import Answer, Application
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.flows.world import World

pytestmark = pytest.mark.django_db

TIMEOUT = {"tpa_id": "tpa-1", "timeout": 77}


@pytest.fixture
def administrator_token(world: World, token: Tokens) -> Application:
    return token("operate", may=tuple(name.partition(".")[2] for name in IMPORT_PERMISSIONS))


def of(world: World, **partner: Any) -> dict[str, Any]:
    return {"partners": [{"name": world.there.name, **partner}]}


def change(api: Application, document: Any, tag: str = "", **body: Any) -> Answer:
    headers = {"If-Match": tag} if tag else {}
    return api.post(
        "configuration", {"document": document, "reason": "they have moved", **body}, **headers
    )


def test_it_is_the_document_of_setup(administrator_token: Application) -> None:
    answer = administrator_token.get("configuration")
    assert (answer.status, answer.json) == (200, exported())


def test_one_partner_of_it(world: World, administrator_token: Application) -> None:
    Partner.objects.create(name="other", uri="http://other.example/ebxml/")
    answer = administrator_token.get("configuration", partner=world.there.name)
    assert [one["name"] for one in answer.json["partners"]] == [world.there.name]
    assert answer.json.keys() == {"partners"}
    assert_problem(administrator_token.get("configuration", partner="nobody"), 404, "nobody")


def test_a_change_and_who_has_made_it(world: World, administrator_token: Application) -> None:
    answer = change(administrator_token, of(world, agreements=[TIMEOUT]))
    assert answer.status == 200
    (changed,) = [one for one in answer.json["changes"] if one["what"] != "unchanged"]
    assert (changed["what"], changed["fields"]) == ("updated", ["timeout"])
    world.agreement.refresh_from_db()
    assert world.agreement.timeout == 77
    recorded = SettingChange.objects.get(after={"timeout": 77})
    assert recorded.actor == administrator_token.name
    assert recorded.reason.startswith("they have moved (API token ")
    again = change(administrator_token, of(world, agreements=[TIMEOUT]))
    assert {one["what"] for one in again.json["changes"]} == {"unchanged"}


def test_channels_that_are_not_listed_any_more_are_removed(
    world: World, administrator_token: Application
) -> None:
    Partner.objects.create(name="hospital", uri="http://hospital.example/ebms/")
    channel = {"direction": "in", "service": "urn:orders", "action": "New"}
    agreement = {"tpa_id": "cpa-1", "our_party": "1", "their_party": "2", "dialect": "ebms2"}

    def listing(*channels: dict[str, str]) -> Any:
        agreements = [{**agreement, "channels": list(channels)}]
        document = {"partners": [{"name": "hospital", "agreements": agreements}]}
        answer = change(administrator_token, document)
        assert answer.status == 200, answer.content
        return answer.json["changes"][-1]

    assert listing(channel)["what"] == "added"
    removed = listing()
    assert removed["what"] == "removed"
    assert ObjectChange(data=removed).is_valid()


def test_a_dry_run_changes_nothing(world: World, administrator_token: Application) -> None:
    before = exported()
    document = of(world, agreements=[TIMEOUT])
    answer = change(administrator_token, document, dry_run=True)
    assert answer.status == 200
    assert any(line.startswith("+") and '"timeout": 77' in line for line in answer.json["diff"])
    assert exported() == before


def test_a_secret_is_taken_and_never_shown(world: World, administrator_token: Application) -> None:
    secret = "a-token-of-the-partner-of-a-usual-length"
    assert change(administrator_token, of(world, token_in=secret, token_out=secret)).status == 200
    assert Credential.objects.filter(partner=world.there).exists()
    assert secret not in administrator_token.get("configuration").content.decode()
    assert not any(secret in str(row.__dict__) for row in SettingChange.objects.all())


def test_a_document_is_refused_as_a_whole(world: World, administrator_token: Application) -> None:
    wrong = of(world, agreements=[TIMEOUT, {"tpa_id": "tpa-1", "timeout": -1, "color": "red"}])
    before = exported()
    answer = change(administrator_token, wrong)
    assert_problem(answer, 422, "partners[0].agreements[1]")
    assert len(answer.json["problems"]) >= 2
    assert exported() == before


def test_what_has_changed_since_it_was_read(world: World, administrator_token: Application) -> None:
    tag = administrator_token.get("configuration").headers["ETag"]
    document = of(world, agreements=[TIMEOUT])
    assert change(administrator_token, document, tag, dry_run=True).status == 200
    assert change(administrator_token, document, tag).status == 200
    for dry in (True, False):
        refused = change(administrator_token, document, tag, dry_run=dry)
        assert_problem(refused, 412, "changed", code=Refusal.CHANGED)
    assert change(administrator_token, document, "*").status == 200


def test_who_may_not(world: World, token: Tokens) -> None:
    assert_problem(token("operate").get("configuration"), 403, "partners.view_partner")
    reader = token("operate", may=tuple(n.partition(".")[2] for n in EXPORT_PERMISSIONS))
    assert reader.get("configuration").status == 200
    assert_problem(change(reader, of(world)), 403, "partners.add_partner")


@pytest.mark.parametrize("document", [[], "x", None, {"partners": {}}, {"colour": "red"}])
def test_what_is_no_document(administrator_token: Application, document: Any) -> None:
    assert change(administrator_token, document).status == 422


def test_a_document_has_a_limit(administrator_token: Application) -> None:
    large = {"msh_uri": "x" * DOCUMENT_LIMIT}
    assert_problem(change(administrator_token, large), 413, f"{DOCUMENT_LIMIT}")
