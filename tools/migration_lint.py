"""Refuses migrations that stop an MSH which is at work: `python -m tools.migration_lint`.

A migration is applied while processes of the version before read and write the tables. It must not
rewrite or scan a table under a lock, and those processes must be able to go on with its result.
The first migration of an app, and tables that a migration itself creates, are free. Of other apps
nothing is checked: their tables are small.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import django
from django.contrib.postgres import operations as postgres
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations import operations as plain
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import CheckConstraint, Field, ForeignKey, GeneratedField, Value
from django.db.models.functions import Now

APPS = ("msh", "partners")
LEAST_REASON = 20
"""Characters of a reason that says something."""

INDEX = "building an index blocks every write: use msh.store.migrating.AddIndexConcurrently"
REMOVED_INDEX = "blocks every statement: use RemoveIndexConcurrently of django.contrib.postgres"
UNIQUE = (
    "its index is built while every write is blocked: CREATE UNIQUE INDEX CONCURRENTLY by RunSQL"
    " in a migration with atomic = False, then ADD CONSTRAINT ... USING INDEX"
)
NULL = (
    "processes of the version before insert rows without it: give it null=True, or a db_default;"
    " a default is Django's only, and not the table's"
)
VOLATILE = (
    "a db_default that is not a plain value or Now() may rewrite the table: add the column with"
    " null=True, then BackFill in a migration of its own"
)
REWRITE = "rewrites the table: add a new column with null=True, BackFill it, and read the new one"
RENAME = (
    "processes of the version before use the old name: add the new one, BackFill, and remove the"
    " old one a version later"
)
NOT_NULL = (
    "SET NOT NULL reads the whole table under a lock: AddConstraintNotValid of a CheckConstraint"
    " that the column is not null, and ValidateConstraint in the next migration"
)
CHECK = (
    "reads the whole table under a lock: use AddConstraintNotValid, and ValidateConstraint in the"
    " next migration"
)
CHECK_OF_TYPE = (
    "the CHECK of its type reads the whole table under a lock: take a type without one, such as"
    " IntegerField, with AddConstraintNotValid, and ValidateConstraint in the next migration"
)
SAME_TRANSACTION = (
    "in one transaction with AddConstraintNotValid it reads the table under that one's lock: move"
    " it into the next migration"
)
REASON = (
    "give the migration reasons = {{{key!r}: '...'}}: why it neither locks a table for long nor"
    " takes from processes of the version before what they use"
)
ALONE = (
    "a migration with atomic = False is repeated from its first operation when one fails: give"
    " each operation a migration of its own"
)
MIXED = "changes rows while the tables are locked: give it a migration of its own"
UNKNOWN = "is not known to be safe: write down in tools/migration_lint.py whether it is"

ROWS = (plain.RunPython, plain.RunSQL)


class Lint:
    """Of the operations of one migration, whose app has the tables of `state` before it."""

    def __init__(self, migration: Migration, state: ProjectState) -> None:
        self._migration = migration
        self._state = state
        self._app = migration.app_label
        self._new: set[str] = set()
        self._not_valid: set[str] = set()

    def refused(self) -> Iterator[str]:
        """A line for each: what, and the cure."""
        operations = list(_flat(self._migration.operations))
        if not self._migration.atomic and len(operations) > 1:
            yield self._line("atomic = False", ALONE)
        mixed = any(not isinstance(one, ROWS) for one in operations)
        yield from self._refused(self._migration.operations, mixed=self._migration.atomic and mixed)

    def _refused(self, operations: Iterable[Any], *, mixed: bool) -> Iterator[str]:
        for operation in operations:
            if isinstance(operation, plain.SeparateDatabaseAndState):
                before = self._state.clone()
                yield from self._refused(operation.database_operations, mixed=mixed)
                self._state = before
            else:
                if mixed and isinstance(operation, ROWS):
                    yield self._line(type(operation).__name__, MIXED)
                for why in self._why(operation):
                    yield self._line(_name(operation), why)
            operation.state_forwards(self._app, self._state)

    def _line(self, what: str, why: str) -> str:
        return f"{self._app}.{self._migration.name}: {what}: {why}"

    def _why(self, operation: Any) -> Iterable[str]:
        model = _model_of(operation)
        match operation:
            case plain.CreateModel():
                self._new.add(model)
            case _ if model in self._new:
                return ()
            case plain.RunPython() | plain.RunSQL() | plain.RemoveField() | plain.DeleteModel():
                return self._without_reason(operation)
            case postgres.AddConstraintNotValid():
                self._not_valid.add(operation.constraint.name)
            case postgres.ValidateConstraint() if operation.name in self._not_valid:
                return (SAME_TRANSACTION,)
            case plain.AlterField():
                before = self._state.models[self._app, model].fields[operation.name]
                taken = _takes_from_others(before, operation.field)
                reasons = self._without_reason(operation) if taken else ()
                return (*_altered(before, operation.field), *reasons)
            case plain.RemoveConstraint() if not self._is_check(model, operation.name):
                # ON CONFLICT of the version before may name it.
                return self._without_reason(operation)
        return _known().get(type(operation), _unknown)(operation)

    def _is_check(self, model: str, name: str) -> bool:
        found = self._state.models[self._app, model].get_constraint_by_name(name)
        return isinstance(found, CheckConstraint)

    def _without_reason(self, operation: Operation) -> Iterator[str]:
        reasons: dict[str, str] = getattr(self._migration, "reasons", {})
        if len(reasons.get(_name(operation), "")) < LEAST_REASON:
            yield REASON.format(key=_name(operation))


def _known() -> dict[type[Operation], Callable[[Any], Iterable[str]]]:
    """What is wrong with an operation, whatever came before it."""
    from msh.store.migrating import AddIndexConcurrently, BackFill  # noqa: PLC0415

    free = (
        *(plain.AlterModelOptions, plain.AlterModelManagers, plain.AlterModelTableComment),
        *(plain.CreateModel, plain.AlterOrderWithRespectTo, plain.RemoveConstraint),
        *(plain.RenameIndex, postgres.RemoveIndexConcurrently, AddIndexConcurrently, BackFill),
        *(postgres.AddConstraintNotValid, postgres.ValidateConstraint),
    )
    refused = {
        RENAME: (plain.RenameField, plain.RenameModel, plain.AlterModelTable),
        UNIQUE: (plain.AlterUniqueTogether, plain.AlterIndexTogether),
        INDEX: (plain.AddIndex, postgres.AddIndexConcurrently),
        REMOVED_INDEX: (plain.RemoveIndex,),
    }
    return {
        **dict.fromkeys(free, lambda operation: ()),
        **{one: _always(why) for why, types in refused.items() for one in types},
        plain.AddField: lambda operation: _added(operation.field),
        plain.AddConstraint: _constraint,
    }


def _always(why: str) -> Callable[[Any], Iterable[str]]:
    return lambda operation: (why,)


def _unknown(operation: Operation) -> Iterable[str]:
    return (UNKNOWN,)


def _constraint(operation: Any) -> Iterable[str]:
    return (CHECK if isinstance(operation.constraint, CheckConstraint) else UNIQUE,)


def _flat(operations: Any) -> Iterator[Any]:
    """Those that change the database."""
    for one in operations:
        if isinstance(one, plain.SeparateDatabaseAndState):
            yield from _flat(one.database_operations)
        else:
            yield one


def _model_of(operation: Any) -> str:
    model = isinstance(operation, (plain.CreateModel, plain.DeleteModel))
    return str(getattr(operation, "name" if model else "model_name", "")).lower()


def _name(operation: Any) -> str:
    """As in `reasons`: RunSQL, RemoveField outboundmessage.note, DeleteModel note."""
    if isinstance(operation, ROWS):
        return type(operation).__name__
    part = "" if isinstance(operation, plain.DeleteModel) else getattr(operation, "name", "")
    model = _model_of(operation)
    named = model if part == model or not part else f"{model}.{part}".strip(".")
    return f"{type(operation).__name__} {named}".strip()


def _added(field: Any) -> Iterator[str]:
    if field.many_to_many:
        return
    if field.primary_key or isinstance(field, GeneratedField):
        yield REWRITE
        return
    if field.unique:
        yield UNIQUE
    elif field.db_index:
        cure = ": db_index=False, then" if isinstance(field, ForeignKey) else ", then"
        yield f"its index blocks every write{cure} msh.store.migrating.AddIndexConcurrently"
    if not (field.null or field.has_db_default()):
        yield NULL
    if field.has_db_default() and not _is_constant(field.db_default):
        yield VOLATILE
    if _check(field):
        yield CHECK_OF_TYPE
    if isinstance(field, ForeignKey) and (field.has_db_default() or field.has_default()):
        yield f"its rows are checked under a lock: no default. {NOT_NULL}"


def _is_constant(value: Any) -> bool:
    return not hasattr(value, "resolve_expression") or isinstance(value, (Value, Now))


def _altered(before: Any, after: Any) -> Iterator[str]:
    if before.many_to_many or after.many_to_many:
        if not (before.many_to_many and after.many_to_many):
            yield REWRITE
        return
    if before.db_column != after.db_column:
        yield RENAME
    if not _is_same_type(before, after):
        yield REWRITE
    if before.null and not after.null:
        yield NOT_NULL
    if after.unique and not before.unique:
        yield UNIQUE
    elif after.db_index and not before.db_index:
        yield INDEX
    if _target(before) != _target(after):
        yield "checks every row against the other table under a lock: add a new column"
    if _check(after) and not _check(before):
        yield CHECK_OF_TYPE


def _takes_from_others(before: Any, after: Any) -> bool:
    """The version before may insert rows without it, or name it by ON CONFLICT."""
    lost = before.has_db_default() and not after.has_db_default()
    return (lost and not after.null) or (before.unique and not after.unique)


def _check(field: Any) -> str:
    """Of its type, such as >= 0."""
    return str(connection.data_type_check_constraints.get(field.get_internal_type(), ""))


def _target(field: Any) -> tuple[Any, bool]:
    if field.remote_field is None:
        return None, False
    return field.remote_field.model, field.db_constraint


def _is_same_type(before: "Field[Any, Any]", after: "Field[Any, Any]") -> bool:
    """A text may become longer: that changes the catalogue only."""
    if isinstance(before, ForeignKey) and isinstance(after, ForeignKey):
        return True  # its target is compared
    old, new = before.db_type(connection) or "", after.db_type(connection) or ""
    if old.startswith("varchar(") and new.startswith("varchar("):
        return int(new[8:-1]) >= int(old[8:-1])
    return old == new or (old.startswith("varchar(") and new == "text")


def refused(graph: Any) -> list[str]:
    """Of all migrations of APPS in a MigrationGraph, but the first of each app."""
    lines: list[str] = []
    for app, name in sorted(key for key in graph.nodes if key[0] in APPS):
        migration = graph.nodes[app, name]
        before = graph.node_map[app, name].parents
        if any(parent.key[0] == app for parent in before):
            lines += Lint(migration, graph.make_state((app, name), at_end=False)).refused()
    return lines


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "msh.settings")
    django.setup()
    from django.db.migrations.loader import MigrationLoader  # noqa: PLC0415

    lines = refused(MigrationLoader(None).graph)
    for line in lines:
        print(line, file=sys.stderr)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
