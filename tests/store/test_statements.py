"""Each statement of the store is one that psycopg translates once, not at each call."""

import importlib
import pkgutil
import re

from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH, MAX_CACHED_STATEMENT_PARAMS

import msh.store
from msh.store.engine import Statement

# Polls that look for what is new, and sweeps. Translating one takes 30 µs, running it a hundred
# times as long.
LONG = {
    f"msh.store.{name}"
    for name in (
        "delivery.polling_sql.FIND_NEW_TO_POST",
        "delivery.polling_sql.FIND_NEW_TO_CALL",
        "delivery.polling_sql.FIND_NEW_OF_CONSUMER",
        "delivery.unclaimed._FIND",
        "operations.stuck_links._UNDELIVERED",
        "statistics.collect_sql.COUNT_HISTORY",
    )
}
_PARAMETER = re.compile(r"%\((\w+)\)")


def statements() -> dict[str, Statement[object]]:
    modules = pkgutil.walk_packages(msh.store.__path__, "msh.store.")
    return {
        f"{module.name}.{name}": value
        for module in modules
        for name, value in vars(importlib.import_module(module.name)).items()
        if isinstance(value, Statement)
    }


def test_every_statement_is_short_and_has_few_parameters() -> None:
    """Otherwise psycopg translates `%(name)s` by regular expressions each time."""
    found = statements()
    assert len(found) > 50
    long = {name for name, one in found.items() if len(one.sql) > MAX_CACHED_STATEMENT_LENGTH}
    assert long <= LONG
    for name, statement in found.items():
        assert len(set(_PARAMETER.findall(statement.sql))) <= MAX_CACHED_STATEMENT_PARAMS, name
