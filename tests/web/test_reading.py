"""Pages and reads of the API that take too long are ended, and say so."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from msh.flows.operations import tokens
from msh.models import Scope
from tests.web import web_process

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def port(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with web_process(tmp_path_factory.mktemp("web"), threads=1, MSH_READ_TIMEOUT="0.5") as port:
        yield port


@contextmanager
def slow(table: str) -> Iterator[None]:
    """Whoever reads this table waits."""
    parameters = connection.get_connection_params()
    names = ("host", "port", "dbname", "user", "password")
    with psycopg.connect(**{name: parameters[name] for name in names}) as other:
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield


def get(port: int, path: str, **headers: str) -> tuple[int, str]:
    there = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    there.request("GET", path, headers=headers)
    response = there.getresponse()
    answer = response.status, response.read().decode()
    there.close()
    return answer


@pytest.fixture
def user() -> User:
    return User.objects.create_superuser("root")


def test_slow_page_is_an_error_page(port: int, user: User) -> None:
    browser = Client()
    browser.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    name = settings.SESSION_COOKIE_NAME
    cookie = {"Cookie": f"{name}={browser.cookies[name].value}"}
    with slow("msh_history"):
        status, page = get(port, "/admin/msh/history/", **cookie)
    assert status == 503
    assert "Query timeout" in page
    assert "0.5 seconds" in page
    assert get(port, "/admin/msh/history/", **cookie)[0] == 200


def test_slow_api_read_is_a_problem_document(port: int, user: User) -> None:
    _, secret = tokens.make("reader", [Scope.OPERATE], user)
    token = {"Authorization": f"Bearer {secret}"}
    with slow("msh_incident"):
        status, problem = get(port, "/api/v1/incidents", **token)
    assert status == 503
    assert "took longer than 0.5 seconds" in problem
    assert get(port, "/api/v1/incidents", **token)[0] == 200
