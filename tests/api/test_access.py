"""Who comes in, with which token, and what is said to those who do not."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.test import Client

from msh.models import ApiToken, InboundMessage
from msh.protocol.reason import Refusal, refusal_of
from tests.admin.conftest import client_of
from tests.api.application import Answer, Application, order
from tests.api.conftest import Tokens
from tests.flows.world import World

pytestmark = pytest.mark.django_db

NEEDS = [
    ("GET", "messages", "read"),
    ("POST", "messages", "send"),
    ("POST", "messages/bulk", "send"),
    ("GET", "messages/bulk", "read"),
    ("GET", "messages/m-1", "read"),
    ("GET", "messages/m-1/suspend", "read"),
    ("GET", "messages/m-1/history", "read"),
    ("GET", "messages/m-1/payloads/1", "read_payload"),
    ("GET", "business-keys", "read_payload"),
    ("GET", "events", "read"),
    ("GET", "events/marks", "read"),
    ("GET", "events/positions", "read"),
    ("GET", "message-marks", "read"),
    ("GET", "inbound", "read"),
    ("GET", "inbound/marks", "read"),
    ("GET", "inbound/positions", "read"),
    ("GET", "inbound/1/payloads/1", "read_payload"),
    ("POST", "deliveries/take", "consume"),
    ("POST", "deliveries/1/settle", "consume"),
    ("GET", "links", "operate"),
    ("GET", "links/1", "operate"),
    ("POST", "links/1/suspend", "operate"),
    ("POST", "links/1/resume", "operate"),
    ("POST", "links/1/send-now", "operate"),
    ("POST", "messages/m-1/suspend", "operate"),
    ("GET", "conversations/out", "operate"),
    ("POST", "conversations/out/1/restart-conversation", "operate"),
    ("POST", "conversations/out/1/start-order", "operate"),
    ("GET", "conversations/in", "operate"),
    ("POST", "conversations/in/1/extend-wait", "operate"),
    ("POST", "conversations/in/1/skip-missing", "operate"),
    ("POST", "conversations/in/1/drop-held", "operate"),
    ("POST", "conversations/in/1/start-order", "operate"),
    ("POST", "links/1/plan-maintenance", "operate"),
    ("GET", "links/1/queue", "operate"),
    ("GET", "links/1/history", "operate"),
    ("POST", "links/1/cancel-queue", "operate"),
    ("GET", "maintenance", "operate"),
    ("GET", "maintenance/1", "operate"),
    ("POST", "maintenance/1/end", "operate"),
    ("POST", "deliveries/1/replay", "operate"),
    ("GET", "replays", "operate"),
    ("POST", "replays", "operate"),
    ("GET", "submissions-again", "operate"),
    ("POST", "submissions-again", "operate"),
    ("GET", "resumptions", "operate"),
    ("POST", "resumptions", "operate"),
    ("GET", "jobs", "operate"),
    ("GET", "jobs/1", "operate"),
    ("GET", "jobs/1/rows", "operate"),
    ("POST", "jobs/1/cancel", "operate"),
    ("GET", "refusals", "operate"),
    ("POST", "refusals/1/take-back", "operate"),
    ("GET", "incidents", "operate"),
    ("GET", "incidents/1", "operate"),
    ("POST", "incidents/1/resolve", "operate"),
    ("GET", "statistics", "operate"),
    ("GET", "configuration", "operate"),
    ("POST", "configuration", "operate"),
]
OF_ANY_TOKEN = [("GET", "token")]
_BAD_REQUEST = {Refusal.DOCUMENT, Refusal.INVALID}


def assert_problem(answer: Answer, status: int, *words: str, code: Refusal | None = None) -> None:
    """`code`: by default the one that the status alone gives."""
    assert (answer.status, answer.content_type) == (status, "application/problem+json")
    document = answer.json
    assert (document["type"], document["status"]) == (
        f"/api/problems#{document['code']}",
        status,
    )
    assert document["title"]
    allowed = {code} if code else {refusal_of(status)} if status != 400 else _BAD_REQUEST
    assert document["code"] in allowed
    for word in words:
        assert word in document["detail"]


@pytest.mark.parametrize(("method", "path", "scope"), NEEDS)
def test_token_needs_the_scope_of_the_address(
    token: Tokens, method: str, path: str, scope: str
) -> None:
    every = {"send", "read", "read_payload", "consume", "operate"}
    answer = token(*(every - {scope})).ask(method, path, b"{}", "application/json")
    assert_problem(answer, 403, f"lacks the scope {scope}")


@pytest.mark.parametrize(
    ("method", "path"), [*((method, path) for method, path, _ in NEEDS), *OF_ANY_TOKEN]
)
def test_without_a_token_nothing_is_revealed(method: str, path: str) -> None:
    answer = Application("guessed").ask(method, path, b"{}", "application/json")
    assert_problem(answer, 401, "Unknown token")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="api"'


def test_cookie_of_the_console_does_not_count() -> None:
    client = Client()
    client.force_login(
        User.objects.create_superuser("root"),
        backend="django.contrib.auth.backends.ModelBackend",
    )
    assert client.get("/api/v1/messages").status_code == 401


def test_token_of_a_user_who_has_left(shop: Application) -> None:
    User.objects.filter(username=shop.name).update(is_active=False)
    assert_problem(shop.get("messages"), 401)


def test_token_that_is_revoked(shop: Application) -> None:
    assert shop.get("messages").status == 200
    call_command("token", shop.name, "--revoke")
    assert_problem(shop.get("messages"), 401)


def test_each_token_has_a_rate_of_its_own(token: Tokens, settings: Any) -> None:
    settings.MSH_API_RATE = "2/minute"
    greedy, other = token("read"), token("read")
    assert [greedy.get("messages").status for _ in range(3)] == [200, 200, 429]
    refused = greedy.get("messages")
    assert_problem(refused, 429)
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert other.get("messages").status == 200


def test_address_that_is_none(shop: Application) -> None:
    assert_problem(shop.get("mesages"), 404, "/api/v1/mesages", "/api/docs")


def test_method_that_is_none(shop: Application) -> None:
    assert_problem(shop.ask("DELETE", "messages"), 405, "DELETE")


@pytest.mark.parametrize(
    "accept", ["application/xml", "application/pdf;q=0.5", "text/*", "nonsense"]
)
def test_answer_comes_in_the_one_type_there_is(
    world: World, shop: Application, accept: str
) -> None:
    payload = {"content": "<a/>", "content_type": "application/xml"}
    shop.post("messages", order(world, "m-1", payloads=[payload]))
    world.settle()
    received = InboundMessage.objects.get()
    for path, content_type in {
        "messages": "application/json",
        "messages/m-1/payloads/1": "application/xml",
        f"inbound/{received.pk}/payloads/1": "application/xml",
        "messages/m-2": "application/problem+json",
    }.items():
        answer = shop.ask("GET", path, headers={"Accept": accept})
        assert (answer.content_type, answer.status) in {(content_type, 200), (content_type, 404)}


def test_body_in_chunks_is_refused(shop: Application) -> None:
    headers = {"Transfer-Encoding": "chunked"}
    answer = shop.ask("POST", "messages", b"{}", "application/json", headers=headers)
    assert_problem(answer, 411, "Content-Length")


def test_error_of_ours_is_a_problem_too(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr("msh.api.messages.prepared", broken)
    answer = shop.post("messages", order(world))
    assert_problem(answer, 500, "see the log")
    assert b"secret" not in answer.content


@pytest.mark.parametrize(
    ("error", "status"), [(KeyError("secret"), 500), (OperationalError("no database"), 503)]
)
def test_error_before_any_view_is_a_problem_too(
    shop: Application, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("msh.admin.framework.time_zone.TimeZones.__call__", broken)
    client = Client(raise_request_exception=False, headers={"X-Request-Id": "job-7"})
    answer = client.get("/api/v1/messages")
    assert (answer.status_code, answer.headers["Content-Type"]) == (
        *(status, "application/problem+json"),
    )
    assert (answer.json()["code"], answer.json()["request_id"]) == (refusal_of(status), "job-7")
    assert ("Retry-After" in answer.headers) == (status == 503)
    assert b"secret" not in answer.content


def test_host_that_is_none_of_ours_is_a_problem_too(shop: Application) -> None:
    answer = shop.ask("GET", "messages", headers={"Host": "elsewhere.example"})
    assert_problem(answer, 400, "elsewhere.example", "ALLOWED_HOSTS", code=Refusal.REQUEST)


# --- made and revoked ---------------------------------------------------------------------------
def test_command_prints_the_secret_once(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("token", "spark", "--scopes", "send,read_payload")
    secret = capsys.readouterr().out.strip()
    token = ApiToken.objects.get()
    assert (token.scopes, token.user.username) == (["send", "read_payload"], "spark")
    assert not token.user.has_usable_password()
    assert secret not in str(vars(token)), "only its digest is kept"
    assert Application(secret).get("messages").status == 403
    call_command("token", "--json")
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["name"], listed["scopes"]) == ("spark", "send,read_payload")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["spark", "--scopes", "send,fly"], "scopes"),
        (["two words"], "name"),
        (["spark", "--user", "nobody"], "No user 'nobody'"),
        (["spark", "--revoke"], "no token 'spark'"),
        (["root"], "--user root"),
    ],
)
def test_command_refuses(words: list[str], said: str) -> None:
    User.objects.create_superuser("root")
    with pytest.raises(CommandError, match=said):
        call_command("token", *words)
    assert not ApiToken.objects.exists()


def test_name_is_given_once() -> None:
    call_command("token", "spark")
    with pytest.raises(CommandError, match="name"):
        call_command("token", "spark")


def made_in_console(client: Client, **values: Any) -> str:
    values["reason"] = "the test says so"
    response = client.post("/admin/msh/apitoken/add/", values, follow=True)
    return str(response.content.decode())


def test_console_shows_the_secret_once(administrator: Client) -> None:
    user = User.objects.create_user("shop")
    user.groups.set([Group.objects.get(name="Viewer")])
    page = made_in_console(administrator, name="shop", user=user.pk, scopes=["read"])
    token = ApiToken.objects.get()
    _, _, rest = page.partition("Token shop: ")
    assert Application(rest.split()[0]).get("messages").status == 200
    again = administrator.get("/admin/msh/apitoken/").content.decode()
    assert "shop" in again
    assert rest.split()[0] not in again
    administrator.post(f"/admin/msh/apitoken/{token.pk}/delete/", {"post": "yes", "reason": "lost"})
    assert Application(rest.split()[0]).get("messages").status == 401


def test_token_cannot_exceed_the_permissions_of_its_maker() -> None:
    root = User.objects.create_superuser("root")
    views = ("view_inboundmessage", "view_outboundmessage")
    client = client_of("ann", "add_apitoken", "view_apitoken", *views)
    made_in_console(client, name="mine", user=root.pk, scopes=["operate"])
    assert not ApiToken.objects.exists()
    made_in_console(client, name="mine", user=User.objects.get(username="ann").pk, scopes=["read"])
    assert ApiToken.objects.get().user.username == "ann"
