"""The database of a receiving MSH, for those who look at it from outside."""

import pytest
from django.db import connection
from psycopg.conninfo import make_conninfo

from demo.application import TABLE


@pytest.fixture
def database(transactional_db: None) -> str:
    """The address of the test's database, for connections of the demo's own."""
    with connection.cursor() as cursor:
        cursor.execute(TABLE)
        cursor.execute("TRUNCATE demo_received")
    values = connection.get_connection_params()
    wanted = ("host", "port", "user", "password", "dbname")
    return make_conninfo(**{name: values[name] for name in wanted if values.get(name)})
