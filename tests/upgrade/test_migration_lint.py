"""What a migration may not do while an MSH is at work, and what it may."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from django.contrib.postgres import operations as postgres
from django.contrib.postgres.functions import RandomUUID
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.models.functions import Now
from django.test import override_settings

from msh.store.migrating import AddIndexConcurrently, BackFill
from tools import migration_lint
from tools.migration_lint import Lint

TABLE = "outboundmessage"
SHORT = models.CheckConstraint(condition=~models.Q(action=""), name="later_action")
WHY = "tables of the version before are not touched"


def refused(
    operations: Sequence[Any], *, atomic: bool = True, reasons: Mapping[str, str] | None = None
) -> list[str]:
    state = MigrationLoader(None).project_state(("msh", "0001_initial"))
    said = {"operations": list(operations), "atomic": atomic, "reasons": reasons or {}}
    migration = type("Migration", (migrations.Migration,), said)("0002_later", "msh")
    return list(Lint(migration, state).refused())


def add(field: "models.Field[Any, Any]") -> Any:
    return migrations.AddField(TABLE, "later", field)


def alter(name: str, field: "models.Field[Any, Any]") -> Any:
    return migrations.AlterField(TABLE, name, field)


INDEX = models.Index(fields=["size"], name="later_size")
PARTNER = "partners.Partner"
REFUSED = {
    "index": (migrations.AddIndex(TABLE, INDEX), migration_lint.INDEX),
    "remove index": (migrations.RemoveIndex(TABLE, "any"), "RemoveIndexConcurrently"),
    "not null": (add(models.IntegerField()), migration_lint.NULL),
    "default of Django": (add(models.IntegerField(default=1)), migration_lint.NULL),
    "volatile": (add(models.UUIDField(db_default=RandomUUID())), migration_lint.VOLATILE),
    "unique column": (add(models.IntegerField(null=True, unique=True)), migration_lint.UNIQUE),
    "column with an index": (
        add(models.IntegerField(null=True, db_index=True)),
        "then msh.store.migrating.AddIndexConcurrently",
    ),
    "foreign key": (
        add(models.ForeignKey(PARTNER, models.PROTECT, null=True)),
        "db_index=False",
    ),
    "foreign key with a default": (
        add(models.ForeignKey(PARTNER, models.PROTECT, null=True, db_index=False, default=1)),
        "no default",
    ),
    "column with a check": (
        add(models.PositiveIntegerField(null=True)),
        migration_lint.CHECK_OF_TYPE,
    ),
    "generated": (
        add(
            models.GeneratedField(
                expression=models.F("size") + 1,
                output_field=models.IntegerField(),
                db_persist=True,
            )
        ),
        migration_lint.REWRITE,
    ),
    "type": (alter("action", models.IntegerField()), migration_lint.REWRITE),
    "shorter": (alter("boundary", models.CharField(max_length=3)), migration_lint.REWRITE),
    "set not null": (alter("head", models.BinaryField()), migration_lint.NOT_NULL),
    "make unique": (
        alter("boundary", models.CharField(max_length=70, unique=True)),
        migration_lint.UNIQUE,
    ),
    "make an index": (
        alter("boundary", models.CharField(max_length=70, db_index=True)),
        migration_lint.INDEX,
    ),
    "other column": (
        alter("boundary", models.CharField(max_length=70, db_column="x")),
        migration_lint.RENAME,
    ),
    "remove a default": (
        alter("from_role", models.TextField()),
        "reasons = {'AlterField outboundmessage.from_role': '...'}",
    ),
    "remove unique": (
        migrations.AlterField("apitoken", "sha256", models.CharField(max_length=64)),
        "reasons = {'AlterField apitoken.sha256': '...'}",
    ),
    "remove a unique constraint": (
        migrations.RemoveConstraint(TABLE, "outbound_message_once"),
        "reasons = {'RemoveConstraint outboundmessage.outbound_message_once': '...'}",
    ),
    "check of a column": (
        migrations.AlterField("inboundmessage", "turn", models.PositiveBigIntegerField(null=True)),
        migration_lint.CHECK_OF_TYPE,
    ),
    "check": (migrations.AddConstraint(TABLE, SHORT), migration_lint.CHECK),
    "unique": (
        migrations.AddConstraint(
            TABLE, models.UniqueConstraint(fields=["action"], name="later_once")
        ),
        migration_lint.UNIQUE,
    ),
    "rename column": (migrations.RenameField(TABLE, "size", "bytes"), migration_lint.RENAME),
    "rename table": (migrations.RenameModel("Attempt", "Trial"), migration_lint.RENAME),
    "SQL": (migrations.RunSQL("SELECT 1"), "reasons = {'RunSQL': '...'}"),
    "Python": (migrations.RunPython(migrations.RunPython.noop), "reasons = {'RunPython': '...'}"),
    "remove column": (
        migrations.RemoveField(TABLE, "size"),
        "reasons = {'RemoveField outboundmessage.size': '...'}",
    ),
    "remove table": (
        migrations.DeleteModel("Attempt"),
        "reasons = {'DeleteModel attempt': '...'}",
    ),
    "hidden in another": (
        migrations.SeparateDatabaseAndState([migrations.AddIndex(TABLE, INDEX)]),
        migration_lint.INDEX,
    ),
}


@pytest.mark.parametrize(("operation", "cure"), REFUSED.values(), ids=REFUSED)
def test_refused_with_its_cure(operation: Any, cure: str) -> None:
    (line,) = refused([operation])
    assert line.startswith("msh.0002_later: ")
    assert cure in line


ALLOWED = {
    "column": add(models.TextField(null=True)),
    "column with a default": add(models.TextField(db_default="")),
    "column with the time": add(models.DateTimeField(db_default=Now())),
    "foreign key": add(models.ForeignKey(PARTNER, models.PROTECT, null=True, db_index=False)),
    "longer": alter("boundary", models.CharField(max_length=2000)),
    "null": alter("boundary", models.CharField(max_length=70, null=True)),
    "null without a default": alter("from_role", models.TextField(null=True)),
    "other default": alter("from_role", models.TextField(db_default="x")),
    "remove a check": migrations.RemoveConstraint(TABLE, "head_has_digest"),
    "check": postgres.AddConstraintNotValid(TABLE, SHORT),
    "validation": postgres.ValidateConstraint(TABLE, "later_action"),
    "words": migrations.AlterModelOptions(TABLE, {"verbose_name": "message"}),
}


@pytest.mark.parametrize("operation", ALLOWED.values(), ids=ALLOWED)
def test_allowed(operation: Any) -> None:
    assert refused([operation]) == []


@pytest.mark.parametrize(
    "operation",
    [
        AddIndexConcurrently(TABLE, INDEX),
        BackFill(TABLE, {"action": "x"}, models.Q(action="")),
        postgres.RemoveIndexConcurrently(TABLE, "any"),
    ],
)
def test_allowed_without_a_transaction(operation: Any) -> None:
    assert refused([operation], atomic=False) == []


def test_index_of_django_leaves_one_behind_that_is_not_valid() -> None:
    (line,) = refused([postgres.AddIndexConcurrently(TABLE, INDEX)], atomic=False)
    assert migration_lint.INDEX in line


def test_what_is_repeated_is_alone() -> None:
    two = [AddIndexConcurrently(TABLE, INDEX), add(models.TextField(null=True))]
    (line,) = refused(two, atomic=False)
    assert migration_lint.ALONE in line


def test_rows_are_not_changed_where_tables_are_locked() -> None:
    two = [add(models.TextField(null=True)), migrations.RunSQL("UPDATE any SET later = ''")]
    (line,) = refused(two, reasons={"RunSQL": WHY})
    assert migration_lint.MIXED in line


def test_constraint_is_not_validated_under_its_own_lock() -> None:
    two = [
        postgres.AddConstraintNotValid(TABLE, SHORT),
        postgres.ValidateConstraint(TABLE, "later_action"),
    ]
    (line,) = refused(two)
    assert migration_lint.SAME_TRANSACTION in line


def test_new_table_is_free() -> None:
    fields: list[tuple[str, models.Field[Any, Any]]] = [
        ("id", models.BigAutoField(primary_key=True)),
        ("size", models.IntegerField()),
    ]
    new = [migrations.CreateModel("Later", fields), migrations.AddIndex("later", INDEX)]
    assert refused(new) == []


def test_state_operations_are_applied_and_database_operations_are_not() -> None:
    """As `migrate` does it."""
    column = migrations.SeparateDatabaseAndState(
        [migrations.AlterField(TABLE, "head", models.TextField())], [add(models.TextField())]
    )
    after = [alter("later", models.CharField(max_length=3)), alter("head", models.BinaryField())]
    rewrite, not_null, shorter, altered = refused([column, *after])
    assert migration_lint.REWRITE in rewrite
    assert migration_lint.NOT_NULL in not_null
    assert "later" in shorter
    assert migration_lint.REWRITE in shorter
    assert migration_lint.NOT_NULL in altered


@pytest.mark.parametrize(
    "operation",
    [
        alter("from_role", models.TextField()),
        migrations.RemoveConstraint(TABLE, "outbound_message_once"),
    ],
)
def test_with_a_reason_it_is_allowed(operation: Any) -> None:
    key = f"{type(operation).__name__} {TABLE}.{operation.name}"
    assert refused([operation], reasons={key: WHY}) == []


@pytest.mark.parametrize("key", ["RunSQL"])
def test_reason_has_to_say_something(key: str) -> None:
    assert refused([migrations.RunSQL("SELECT 1")], reasons={key: WHY}) == []
    assert refused([migrations.RunSQL("SELECT 1")], reasons={key: "safe"}) != []


def test_unknown_operation_is_refused() -> None:
    (line,) = refused([postgres.BtreeGinExtension()])
    assert migration_lint.UNKNOWN in line


def test_migrations_of_the_product() -> None:
    assert migration_lint.refused(MigrationLoader(None).graph) == []


@override_settings(MIGRATION_MODULES={"msh": "tests.upgrade.following"})
def test_migrations_that_the_upgrade_is_tried_with() -> None:
    graph = MigrationLoader(None).graph
    assert ("msh", "0006_fill") in graph.nodes
    assert migration_lint.refused(graph) == []


@override_settings(MIGRATION_MODULES={"msh": "tests.upgrade.bad"})
def test_every_migration_after_the_first_is_read() -> None:
    (line,) = migration_lint.refused(MigrationLoader(None).graph)
    assert line.startswith("msh.0002_bad: AddIndex outboundmessage: ")
