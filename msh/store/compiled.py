"""Queries of Django's ORM that are asked at each request: compiled once, and prepared by
PostgreSQL. To compile one takes the ORM longer than all else that is done with it."""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS
from django.db.models import QuerySet

from msh.store.engine import Statement, run

T = TypeVar("T", int, str)
_MARKS: dict[type[Any], Any] = {int: -2_087_654_321, str: "\ue000 the value that is asked for"}


class Compiled(Generic[T]):
    """`build(value)` gives the query for one value, with `values_list`. It must be the same query
    for every value."""

    def __init__(self, kind: type[T], build: Callable[[T], "QuerySet[Any, Any]"]) -> None:
        self._mark: T = _MARKS[kind]
        self._build: Callable[[T], QuerySet[Any, Any]] = build

    def first(self, value: T) -> tuple[Any, ...] | None:
        """The first row for this value, if there is one."""
        statement, given = self._compiled
        asked = {name: value if one == self._mark else one for name, one in given.items()}
        (rows,) = run(statement(**asked))
        return tuple(rows[0].values()) if rows else None

    @cached_property
    def _compiled(self) -> tuple[Statement[dict[str, Any]], dict[str, Any]]:
        """The statement, and its values with the mark among them."""
        query = self._build(self._mark).query
        sql, values = query.get_compiler(DEFAULT_DB_ALIAS).as_sql()
        if self._mark not in values:
            raise ValueError("the query does not ask for the value")
        given = {f"value_{number}": one for number, one in enumerate(values)}
        names = iter(given)
        named = re.sub("%[%s]", lambda at: "%%" if at[0] == "%%" else f"%({next(names)})s", sql)
        return Statement(named, dict), given
