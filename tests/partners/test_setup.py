"""`manage.py setup`: adds, updates, never removes, says exactly what is wrong."""

import json
import re
from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from msh.flows.operations import configure
from msh.models import SettingChange
from msh.store.history import Actor
from msh.store.receiving.senders import find_sender
from msh.transport.job import Access
from partners.export import as_text, exported
from partners.models import Agreement, Credential, OwnIdentity, Partner, Route, our_identity
from partners.setup import SetupRefused, apply
from tests.certificates import Authority

pytestmark = pytest.mark.django_db

DOCUMENT: dict[str, Any] = {
    "msh_uri": "http://us.example/ebxml/",
    "error_uri": "http://us.example/ebxml/errors/",
    "partners": [
        {
            "name": "acme",
            "our_uri": "http://us.example/ebxml/acme/",
            "uri": "http://acme.example/ebxml/",
            "address": "http://127.0.0.1:8001/ebxml/",
            "error_uri": "http://127.0.0.1:8001/errors/",
            "token_in": "what acme shows us",
            "token_out": "what-we-show",
            "agreements": [
                {
                    "tpa_id": "tpa-1",
                    "our_party": "111111111",
                    "their_party": "222222222",
                    "timeout": 2,
                    "retries": 0,
                    "retry_interval": 7,
                }
            ],
        }
    ],
}


def changed(**partner: Any) -> dict[str, Any]:
    document = deepcopy(DOCUMENT)
    document["partners"][0].update(partner)
    return document


def refusal(document: Any) -> list[str]:
    with pytest.raises(SetupRefused) as refused:
        apply(document)
    return refused.value.problems


def test_everything_is_set_up() -> None:
    report = apply(DOCUMENT)
    assert [str(change) for change in report.changes] == [
        "partner acme: added",
        "credential of acme: added",
        "agreement tpa-1 with acme: added",
        "this MSH: added",
    ]
    identity = our_identity()
    assert identity.uri == "http://us.example/ebxml/"
    assert identity.error_uri == "http://us.example/ebxml/errors/"
    partner = find_sender("Bearer what acme shows us")
    assert partner is not None
    assert partner.name == "acme"
    assert partner.our_uri_or_default == "http://us.example/ebxml/acme/"
    assert partner.uri == "http://acme.example/ebxml/"
    assert partner.destination == "http://127.0.0.1:8001/ebxml/"
    assert partner.error_destination == "http://127.0.0.1:8001/errors/"
    assert partner.authorization() == "Bearer what-we-show"
    agreement = partner.agreements.get()
    assert (agreement.tpa_id, agreement.our_party, agreement.their_party) == (
        "tpa-1",
        "111111111",
        "222222222",
    )
    terms = agreement.terms()
    assert (terms.timeout, terms.retries, terms.retry_interval) == (2, 0, 7)


def test_the_same_document_again_changes_nothing() -> None:
    apply(DOCUMENT)
    before = list(Partner.objects.values())
    report = apply(DOCUMENT)
    assert {change.what for change in report.changes} == {"unchanged"}
    assert list(Partner.objects.values()) == before
    assert Credential.objects.count() == 1


def many(count: int) -> dict[str, Any]:
    """Partners of both dialects, each with an agreement, a credential and a route to it."""
    names = [f"partner-{number}" for number in range(count)]
    return {
        "partners": [
            {
                "name": name,
                "uri": f"http://{name}.example/ebxml/",
                "token_in": f"a long token of {name}",
                "token_out": f"a-token-for-{name}",
                "agreements": [
                    {
                        "tpa_id": f"tpa-{name}",
                        "our_party": "1",
                        "their_party": name,
                        **({"preset": "digikoppeling"} if number % 2 else {}),
                    }
                ],
            }
            for number, name in enumerate(names)
        ],
        "routes": [{"to_party": f"behind {name}", "partner": name} for name in names],
    }


def statements_of_setup(document: dict[str, Any]) -> int:
    with CaptureQueriesContext(connection) as statements:
        configure.apply(document, Actor("ann", "because"))
    return len(statements)


def test_a_partner_more_costs_no_statement_more() -> None:
    few = statements_of_setup(many(5))
    assert statements_of_setup(many(65)) <= few
    assert [model.objects.count() for model in (Partner, Agreement, Credential, Route)] == [65] * 4
    assert SettingChange.objects.filter(what="added").count() == 4 * 65


def test_nothing_is_checked_or_written_again_when_nothing_changed() -> None:
    configure.apply(many(30), Actor("ann", "because"))
    recorded = SettingChange.objects.count()
    with CaptureQueriesContext(connection) as statements:
        report = configure.apply(many(30), Actor("ann", "because"))
    assert {change.what for change in report.changes} == {"unchanged"}
    assert [one["sql"] for one in statements if re.match("INSERT|UPDATE|DELETE", one["sql"])] == []
    assert len(statements) < 30
    assert SettingChange.objects.count() == recorded


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ({"uri": "http://PARTNER-0.example/ebxml/"}, "same pair of our URI and its URI"),
        ({"token_in": "a long token of partner-0"}, "each partner needs its own"),
        ({"agreements": [{"tpa_id": "x", "our_party": "1", "retries": -1}]}, "retries"),
        ({"agreements": [{"tpa_id": "x"}]}, "This field cannot be blank"),
    ],
)
def test_a_problem_among_many_is_named(second: dict[str, Any], problem: str) -> None:
    document = many(3)
    document["partners"][1].update(second)
    found = next(one for one in refusal(document) if problem in one)
    assert found.startswith("partners[1]")
    assert not Partner.objects.exists()


def test_a_partner_that_is_named_twice_is_updated() -> None:
    document = many(1)
    document["partners"].append({"name": "partner-0", "rate_limit": 7})
    report = apply(document)
    assert str(report.changes[3]) == "partner partner-0: updated (rate_limit)"
    assert Partner.objects.get().rate_limit == 7


def test_it_updates_and_never_removes() -> None:
    apply(DOCUMENT)
    update = {
        "partners": [
            {
                "name": "acme",
                "address": "http://127.0.0.1:9001/",
                "token_in": "the next token of acme",
                "token_out": "our-next",
                "agreements": [{"tpa_id": "tpa-1", "timeout": 9}],
            }
        ]
    }
    report = apply(update)
    assert [str(change) for change in report.changes] == [
        "partner acme: updated (address, outgoing_secret)",
        "credential of acme: added",
        "agreement tpa-1 with acme: updated (timeout)",
    ]
    partner = Partner.objects.get()
    assert partner.address == "http://127.0.0.1:9001/"
    assert partner.uri == "http://acme.example/ebxml/"
    assert partner.authorization() == "Bearer our-next"
    for token in ("what acme shows us", "the next token of acme"):
        assert find_sender(f"Bearer {token}") == partner
    assert Agreement.objects.get().terms().timeout == 9
    assert Agreement.objects.get().our_party == "111111111"
    assert our_identity().uri == "http://us.example/ebxml/"


@pytest.mark.requirement("EB-188")
def test_client_certificates_are_added_and_exported(tmp_path: Path) -> None:
    authority = Authority()
    certificate = authority.pem.strip()
    fingerprint = ":".join(["AB"] * 32)
    document = changed(certificate_in=[certificate, fingerprint])
    apply(document)
    digest = authority.certificate.fingerprint(SHA256()).hex()
    for shown in (digest, "ab" * 32):
        assert find_sender("", shown) == Partner.objects.get()
    assert {change.what for change in apply(document).changes} == {"unchanged"}
    (partner,) = exported()["partners"]
    assert partner["certificate_in"] == f"{certificate}\n{'ab' * 32}"
    assert {change.what for change in apply(exported()).changes} == {"unchanged"}
    other = {"partners": [{"name": "b", "uri": "http://b/", "certificate_in": digest}]}
    assert refusal(other) == [
        "partners[0].certificate_in: partner acme has the same one: each partner needs its own."
    ]
    key = authority.write(tmp_path / "key.pem", "x").read_text()
    for wrong in ("nonsense", key):
        (problem, *_) = refusal(changed(certificate_in=wrong))
        assert problem.startswith("partners[0].certificate_in: ")
        assert not set(key.splitlines()) & set(problem.split())


@pytest.mark.requirement("EB-189")
def test_ways_to_a_partner_are_exported_without_the_password() -> None:
    authority, other = Authority().pem.strip(), Authority().pem.strip()
    given = {"ca_certificates": [authority, other], "http_proxy": "http://us:s3cret@proxy:3128"}
    document = changed(**given)
    apply(document)
    access = Access(f"{authority}\n{other}", "http://us:s3cret@proxy:3128")
    assert Partner.objects.get().access() == access
    assert {change.what for change in apply(document).changes} == {"unchanged"}
    document = exported()
    (partner,) = document["partners"]
    assert partner["ca_certificates"] == f"{authority}\n{other}"
    assert partner["http_proxy"] == "http://us@proxy:3128"
    assert "s3cret" not in as_text(document)
    assert {change.what for change in apply(document).changes} == {"unchanged"}
    assert Partner.objects.get().access() == access
    apply(changed(http_proxy="http://us:0ther@proxy:3128"))
    assert Partner.objects.get().access().proxy == "http://us:0ther@proxy:3128"


@pytest.mark.requirement("EB-189")
def test_a_certificate_of_ours_for_a_partner_is_named_and_never_exported(
    settings: Any, tmp_path: Path
) -> None:
    pem = Authority().write(tmp_path / "acme.pem", "us").read_text()
    settings.MSH_CLIENT_CERTIFICATES = str(tmp_path)
    apply(changed(client_certificate="acme"))
    assert Partner.objects.get().access().certificate == "acme"
    document = exported()
    assert document["partners"][0]["client_certificate"] == "acme"
    assert not set(pem.splitlines()) & set(as_text(document).split())
    assert {change.what for change in apply(document).changes} == {"unchanged"}
    (problem,) = refusal(changed(client_certificate="globex"))
    assert f"{tmp_path}/globex.pem: No such file or directory. Put globex.pem" in problem
    assert "not of letters" in str(refusal(changed(client_certificate="../acme")))
    apply(changed(client_certificate=""))
    assert Partner.objects.get().access().certificate == ""


def test_basic_credentials_both_ways() -> None:
    document = changed(basic_in="acme:what it shows us", basic_out="us:out")
    del document["partners"][0]["token_out"]
    apply(document)
    partner = find_sender("Basic YWNtZTp3aGF0IGl0IHNob3dzIHVz")
    assert partner is not None
    assert partner.authorization() == "Basic dXM6b3V0"
    assert {change.what for change in apply(document).changes} == {"unchanged"}


@pytest.mark.parametrize(
    ("partner", "problem"),
    [
        ({"uri": "acme"}, "partners[0].uri: 'acme' is not a URI: enter http://HOST/PATH"),
        ({"error_uri": "x"}, "partners[0].error_uri: 'x' is not a URI"),
        ({"name": "a b"}, "partners[0].name: "),
        ({"name": ""}, "partners[0].name: is missing."),
        ({"urI": "x"}, "partners[0].urI: is not known. Did you mean uri?"),
        ({"xyz": 1}, "partners[0].xyz: is not known. Known: name, "),
        ({"uri": 5}, "partners[0].uri: must be a string in quotes."),
        ({"agreements": {}}, "partners[0].agreements: must be a list."),
        ({"agreements": ["x"]}, "partners[0].agreements[0]: must be an object."),
        ({"agreements": [{}]}, "partners[0].agreements[0].tpa_id: is missing."),
        ({"token_out": "a b"}, "partners[0].token_out: A token consists of printable ASCII"),
        ({"basic_out": "a:b"}, "partners[0]: give token_out or basic_out, not both."),
        ({"token_in": ""}, "partners[0].token_in: enter a token"),
        ({"token_in": "s3cret"}, "partners[0].token_in: a token or password has at least 16"),
        ({"basic_in": "a-long-user-name:s3cret"}, "partners[0].basic_in: a token or password has"),
        ({"basic_in": "user"}, "partners[0].basic_in: enter a token, or user:password"),
        ({"http_proxy": "http://us:s3cret@x"}, "partners[0].http_proxy: Enter http://host:port"),
        ({"ca_certificates": "nonsense"}, "partners[0].ca_certificates: This is no certificate"),
        (
            {"client_certificate": "acme"},
            "partners[0].client_certificate: MSH_CLIENT_CERTIFICATES is not set. Put acme.pem",
        ),
        ({"allowed_networks": "10.0.0.0/33"}, "partners[0].allowed_networks: '10.0.0.0/33'"),
    ],
)
def test_problem_is_named_with_its_path(partner: dict[str, Any], problem: str) -> None:
    assert any(line.startswith(problem) for line in refusal(changed(**partner)))
    assert not Partner.objects.exists()
    assert not OwnIdentity.objects.exists()


@pytest.mark.requirement("000-100")
@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("timeout", 0, "Must be 1 or more."),
        ("retries", -1, "Must be 0 or more."),
        ("retry_interval", 0, "Must be 1 or more."),
        ("retry_interval", 10**9, "Must be 604800 or less."),
        ("timeout", 1.5, "must be a whole number."),
        ("timeout", True, "must be a whole number."),
        ("timeout", "5", "must be a whole number."),
        ("semantics", "AtMostOnce", "Value 'AtMostOnce' is not a valid choice."),
        ("our_party", "", "This field cannot be blank."),
    ],
)
def test_impossible_agreements_are_refused(field: str, value: Any, problem: str) -> None:
    document = deepcopy(DOCUMENT)
    document["partners"][0]["agreements"][0][field] = value
    assert f"partners[0].agreements[0].{field}: {problem}" in refusal(document)


def test_all_problems_are_reported_together() -> None:
    document = deepcopy(DOCUMENT)
    document["msh_uri"] = "us"
    document["partners"].append({"name": "b", "uri": "b"})
    document["partners"][0]["agreements"][0]["timeout"] = 0
    assert [line.partition(":")[0] for line in refusal(document)] == [
        "partners[0].agreements[0].timeout",
        "partners[1].uri",
        "msh_uri",
    ]


def test_a_token_belongs_to_one_partner() -> None:
    document = deepcopy(DOCUMENT)
    other = {"name": "b", "uri": "http://b.example/", "token_in": "what acme shows us"}
    document["partners"].append(other)
    assert refusal(document) == [
        "partners[1].token_in: partner acme has the same one: each partner needs its own."
    ]


def test_a_document_that_is_no_object_is_refused() -> None:
    assert refusal([]) == ["the document: must be an object."]


def run(file: Path, *arguments: str) -> str:
    out = StringIO()
    call_command("setup", str(file), *arguments, stdout=out)
    return out.getvalue()


def test_the_command_answers_people_and_scripts(tmp_path: Path) -> None:
    file = tmp_path / "setup.json"
    file.write_text(json.dumps(DOCUMENT))
    assert "partner acme: added" in run(file)
    assert json.loads(run(file, "--json"))["changes"][0] == {
        "thing": "partner acme",
        "what": "unchanged",
        "fields": [],
    }
    partner = Partner.objects.get(name="acme")
    assert (partner.outbound_link.state, partner.inbound_link.last_number) == ("idle", None)


@pytest.mark.parametrize(
    ("content", "problem"),
    [("{", "is not JSON"), ('{"msh_uri": "x"}', "was not applied:\nmsh_uri: 'x' is not a URI")],
)
def test_the_command_refuses_with_the_reason(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "setup.json"
    file.write_text(content)
    with pytest.raises(CommandError) as refused:
        run(file)
    assert problem in str(refused.value)


def test_the_command_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read: No such file"):
        run(tmp_path / "none.json")


def test_routes_are_added_and_updated() -> None:
    document = changed() | {"routes": [{"to_party": "333", "partner": "acme"}]}
    assert "route to 333: added" in str(apply(document))
    assert "route to 333: unchanged" in str(apply(document))

    document["routes"][0]["mode"] = "end-to-end"
    assert "route to 333: updated (mode)" in str(apply(document))
    route = Route.objects.get()
    assert (route.partner.name, route.mode) == ("acme", "end-to-end")


def test_a_route_must_lead_to_somebody_in_a_known_way() -> None:
    routes = [
        {"to_party": "333", "partner": "nobody"},
        {"partner": "acme"},
        {"to_party": "444", "partner": "acme", "mode": "later"},
    ]
    assert refusal(changed() | {"routes": routes}) == [
        "routes[0].partner: there is no partner 'nobody'.",
        "routes[1].to_party: is missing.",
        "routes[1].to_party: This field cannot be blank.",
        "routes[2].mode: Value 'later' is not a valid choice.",
    ]


def test_over_mail_user_and_password_are_shown_and_no_token() -> None:
    mail = {"uri": "mailto:orders@acme.example", "address": "", "error_uri": ""}
    assert refusal(changed(**mail)) == [
        "partners[0]: A token cannot be used by mail: enter user:password instead."
    ]
    document = changed(**mail, basic_out="us:secret")
    del document["partners"][0]["token_out"]
    apply(document)
    assert Partner.objects.get().destination == "mailto:orders@acme.example"
