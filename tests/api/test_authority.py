"""A token gives nothing that its maker may not do: when it is made, and at each request after."""

import re
from html import unescape

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.test import Client

from msh.admin.setup.api_token import SCOPES
from msh.models import ApiToken, Consumer, ConsumerKind, Delivery, Scope
from tests.admin.conftest import client_of
from tests.api.application import Application, order
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem, made_in_console
from tests.delivery.desk import consumer, receive
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

ADDRESSES = [
    ("send", "POST", "messages", "msh.submit_outboundmessage"),
    ("send", "POST", "messages/bulk", "msh.submit_outboundmessage"),
    ("read", "GET", "messages", "msh.view_outboundmessage"),
    ("read", "GET", "inbound", "msh.view_inboundmessage"),
    ("read_payload", "GET", "inbound/1/payloads/1", "msh.view_payload_inboundmessage"),
    ("read_payload", "GET", "messages/m-1/payloads/1", "msh.view_payload_outboundmessage"),
    ("consume", "POST", "deliveries/take", "msh.take_delivery"),
    ("consume", "POST", "deliveries/1/settle", "msh.take_delivery"),
]


def user_of(application: Application) -> User:
    return User.objects.get(username=application.name)


@pytest.mark.parametrize(("scope", "method", "path", "permission"), ADDRESSES)
def test_scope_without_the_permission_of_the_user_gives_nothing(
    token: Tokens, scope: str, method: str, path: str, permission: str
) -> None:
    application = token(scope)
    assert application.ask(method, path, b"{}", "application/json").status not in (401, 403)
    user_of(application).user_permissions.clear()
    answer = application.ask(method, path, b"{}", "application/json")
    assert_problem(answer, 403, permission)


def test_payloads_in_the_feed_need_the_permission_too(token: Tokens) -> None:
    application = token("read", "read_payload")
    asked = {"payloads": "true"}
    assert application.get("inbound", **asked).status == 200
    payloads = Permission.objects.filter(codename__startswith="view_payload")
    user_of(application).user_permissions.remove(*payloads)
    assert_problem(application.get("inbound", **asked), 403, "view_payload")
    assert application.get("inbound").status == 200


def test_permission_of_a_group_counts_until_the_user_leaves_it(token: Tokens) -> None:
    application = token("read")
    user = user_of(application)
    user.user_permissions.clear()
    user.groups.set([Group.objects.get(name="Viewer")])
    assert application.get("messages").status == 200
    user.groups.clear()
    assert_problem(application.get("messages"), 403)


def test_token_of_a_superuser_has_its_scopes_and_no_more(token: Tokens) -> None:
    application = token("read")
    User.objects.filter(username=application.name).update(is_superuser=True)
    user_of(application).user_permissions.clear()
    assert application.get("messages").status == 200
    assert application.post("messages", order(make_world())).status == 403


BEYOND = ["send", "read", "read_payload", "consume"]


@pytest.mark.parametrize("scope", BEYOND)
@pytest.mark.parametrize("machine", [False, True], ids=["own user", "machine user"])
def test_console_gives_no_scope_that_the_maker_lacks(db: None, scope: str, machine: bool) -> None:
    client = client_of("ann", "add_apitoken", "view_apitoken", "add_user")
    ann, bound = User.objects.get(username="ann"), []
    if scope == "consume":
        bound = [consumer(ConsumerKind.PULL).pk]
    user = "" if machine else ann.pk
    assert scope not in drawn(client)
    page = made_in_console(client, name="mine", user=user, scopes=[scope], consumers=bound)
    assert f"You cannot give the scope {scope}" in unescape(page)
    assert not ApiToken.objects.exists()
    assert not User.objects.filter(username="mine").exists()


def test_console_gives_no_power_of_a_machine_user_that_the_maker_lacks(token: Tokens) -> None:
    machine = token("operate").name
    user = User.objects.get(username=machine)
    user.user_permissions.add(Permission.objects.get(codename="cancel_outboundlink"))
    ApiToken.objects.all().delete()
    client = client_of("ann", "add_apitoken", "view_apitoken", "add_user")
    page = made_in_console(client, name=machine, user="", scopes=["operate"])
    assert "may do what you may not" in page
    assert not ApiToken.objects.exists()


def test_console_offers_all_that_the_maker_may_do(db: None) -> None:
    client = client_of("ann", "add_apitoken", "view_apitoken", "take_delivery")
    ann, orders = User.objects.get(username="ann"), consumer(ConsumerKind.PULL)
    assert drawn(client) == ["consume", "operate"]
    made_in_console(client, name="mine", user=ann.pk, scopes=["consume"], consumers=[orders.pk])
    assert ApiToken.objects.get().consumers.get() == orders


def test_superuser_gives_a_user_no_scope_beyond_its_permissions(administrator: Client) -> None:
    user = User.objects.create_user("shop")
    page = made_in_console(administrator, name="shop", user=user.pk, scopes=["read"])
    assert "msh.view_inboundmessage" in page
    assert not ApiToken.objects.exists()


def test_console_draws_a_sentence_for_each_scope(administrator: Client) -> None:
    assert drawn(administrator) == [scope.value for scope in Scope]
    page = administrator.get("/admin/msh/apitoken/add/").content.decode()
    assert all(f"{scope.value}: {text}" in page for scope, text in SCOPES.items())


def drawn(client: Client) -> list[str]:
    """The check boxes on the page."""
    page = client.get("/admin/msh/apitoken/add/").content.decode()
    return re.findall(r'<input type="checkbox" name="scopes" value="(\w+)"', page)


# --- consumers ----------------------------------------------------------------------------------
@pytest.fixture
def two(world: World) -> tuple[Consumer, Consumer]:
    """One takes every message, the other none."""
    other = consumer(ConsumerKind.PULL, name="returns", service_interface="Returns")
    return consumer(ConsumerKind.PULL, name="orders"), other


def bound_to(token: Tokens, *consumers: Consumer) -> Application:
    application = token("consume")
    ApiToken.objects.get(name=application.name).consumers.set(consumers)
    return application


def test_token_takes_for_its_consumers_only(two: tuple[Consumer, Consumer], token: Tokens) -> None:
    orders, returns = two
    receive(make_world())
    stranger, owner = bound_to(token, returns), bound_to(token, orders)
    asked = {"consumer": "orders"}
    assert_problem(stranger.post("deliveries/take", asked), 403, "orders", stranger.name)
    assert len(owner.post("deliveries/take", asked).json["results"]) == 1


def test_token_settles_for_its_consumers_only(
    two: tuple[Consumer, Consumer], token: Tokens
) -> None:
    orders, returns = two
    receive(make_world())
    stranger, owner = bound_to(token, returns), bound_to(token, orders)
    (taken,) = owner.post("deliveries/take", {"consumer": "orders"}).json["results"]
    where, said = f"deliveries/{taken['delivery']}/settle", {"attempt": 1, "outcome": "completed"}
    assert_problem(stranger.post(where, said), 404, str(taken["delivery"]))
    assert Delivery.objects.get().state == "processing"
    assert owner.post(where, said).json["state"] == "completed"


def test_command_binds_a_token_to_consumers(
    two: tuple[Consumer, Consumer], capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("token", "desk", "--scopes", "consume", "--consumers", "orders,returns")
    assert [one.name for one in ApiToken.objects.get().consumers.all()] == ["orders", "returns"]
    assert User.objects.get(username="desk").has_perm("msh.take_delivery")
    capsys.readouterr()
    call_command("token")
    assert "orders,returns" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--scopes", "consume"], "consumers"),
        (["--scopes", "consume", "--consumers", "orders,nobody"], "nobody"),
        (["--scopes", "consume", "--consumers", "web"], "web"),
        (["--scopes", "read", "--consumers", "orders"], "scope consume"),
        (["--user", "kim"], "msh.submit_outboundmessage"),
    ],
)
def test_command_refuses(two: tuple[Consumer, Consumer], words: list[str], said: str) -> None:
    consumer(ConsumerKind.HTTP, name="web", action="Web")
    User.objects.create_user("kim", is_staff=True)
    with pytest.raises(CommandError, match=said):
        call_command("token", "desk", *words)
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize(
    ("scopes", "bound", "said"),
    [(["consume"], [], "consumers"), (["read"], ["orders"], "scope consume")],
)
def test_console_wants_consumers_with_the_scope_consume(
    two: tuple[Consumer, Consumer],
    administrator: Client,
    scopes: list[str],
    bound: list[str],
    said: str,
) -> None:
    root = User.objects.get(username="admin")
    keys = [one.pk for one in Consumer.objects.filter(name__in=bound)]
    page = made_in_console(administrator, name="x", user=root.pk, scopes=scopes, consumers=keys)
    assert said in page
    assert not ApiToken.objects.exists()
