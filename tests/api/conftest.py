"""An application with a token, in front of the world of the flows."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from msh.flows.operations.tokens import make
from msh.models import Consumer, ConsumerKind, Scope
from tests.api.application import Application
from tests.delivery.desk import consumer
from tests.flows.world import World, make_world

Tokens = Callable[..., Application]


@pytest.fixture
def world(db: None) -> World:
    return make_world()


@pytest.fixture
def token(db: None) -> Tokens:
    """`token("send", "read", may=("suspend_outboundlink",))`: an application that holds one, with
    "consume" bound to every pull consumer there is."""

    def given(*scopes: str, may: tuple[str, ...] = ()) -> Application:
        name = f"shop-{User.objects.count()}"
        consumers = [one.name for one in _pull_consumers()] if Scope.CONSUME in scopes else []
        made, secret = make(name, scopes, consumers=consumers)
        permissions = Permission.objects.filter(codename__in=may)
        assert len(permissions) == len(may)
        made.user.user_permissions.add(*permissions)
        return Application(secret, name)

    return given


def _pull_consumers() -> list[Consumer]:
    """If there is none, one is made that takes nothing."""
    found = list(Consumer.objects.filter(kind=ConsumerKind.PULL))
    return found or [consumer(ConsumerKind.PULL, name="none", service_interface="none")]


@pytest.fixture
def shop(token: Tokens) -> Application:
    """May do all that an application may, and nothing in the console."""
    return token(*(scope.value for scope in Scope if scope != Scope.OPERATE))


@pytest.fixture
def administrator(db: None) -> Client:
    client = Client()
    client.force_login(
        User.objects.create_superuser("admin"),
        backend="django.contrib.auth.backends.ModelBackend",
    )
    return client
