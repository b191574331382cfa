"""A database at the first migration, and the migrations of a later version."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from tests.template import template, within


@pytest.fixture
def older(settings: Any, django_db_blocker: DjangoDbBlocker, worker_id: str) -> Iterator[str]:
    """Its name. Django in this process works on it, and knows the later migrations."""
    name = f"{connection.settings_dict['NAME']}_upgrade_{worker_id}"
    with django_db_blocker.unblock():
        first = template()
        settings.MIGRATION_MODULES = {"msh": "tests.upgrade.following"}
        _administer(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        _administer(f'CREATE DATABASE "{name}" TEMPLATE "{first}"')
        with within(name):
            yield name
        _administer(f'DROP DATABASE "{name}" WITH (FORCE)')


def _administer(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)
