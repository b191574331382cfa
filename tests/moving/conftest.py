"""Two MSHs with a database each: that of the test, and one beside it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from django.db import connection, connections

from tests.flows.world import World, make_world
from tests.template import template

There = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "partner.zip"


@pytest.fixture
def world() -> World:
    """One message acknowledged."""
    world = make_world()
    world.submit()
    world.settle()
    return world


@pytest.fixture
def there(transactional_db: None) -> Iterator[There]:
    """Meanwhile this process is one of the other MSH."""
    here = connection.settings_dict["NAME"]
    other = f"{here}_other"

    @contextmanager
    def enter() -> Iterator[None]:
        connections.close_all()
        connection.settings_dict["NAME"] = other
        try:
            yield
        finally:
            connections.close_all()
            connection.settings_dict["NAME"] = here

    _administer(f'DROP DATABASE IF EXISTS "{other}" WITH (FORCE)')
    _administer(f'CREATE DATABASE "{other}" TEMPLATE "{template()}"')
    yield enter
    _administer(f'DROP DATABASE "{other}" WITH (FORCE)')


def _administer(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)
