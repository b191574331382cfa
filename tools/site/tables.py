"""The tables of the database: what a row is, and its columns."""

import inspect
from collections.abc import Iterator

from django.apps import apps
from django.db import models

from tools.site.markdown import table

_HEAD = """\
# Tables

Every table of `msh` and `partners`: what a row is, and its columns. What belongs to what:
[architecture](../architecture.md#the-tables). Times are by the clock of the database.
"""


def page() -> str:
    found = [
        model
        for label in ("msh", "partners")
        for model in apps.get_app_config(label).get_models()
        if not model._meta.proxy
    ]
    return "\n".join([_HEAD, *map(_section, sorted(found, key=_name))])


def _name(model: type[models.Model]) -> str:
    return str(model._meta.db_table)


def _section(model: type[models.Model]) -> str:
    said = inspect.cleandoc(model.__doc__ or "")
    has_own_words = not said.startswith(f"{model.__name__}(")  # else Django has written it
    lines = [f"## {_name(model)}\n", f"{said}\n" if has_own_words else ""]
    return "\n".join([*lines, table(["column", "type", "is"], list(_columns(model)))])


def _columns(model: type[models.Model]) -> Iterator[list[str]]:
    from django.db import connection  # noqa: PLC0415  its types are PostgreSQL's

    for field in model._meta.concrete_fields:
        kind = field.db_type(connection) or ""
        to = f"a row of `{_name(field.related_model)}`" if field.is_relation else ""
        unique = "unique" if field.unique and not field.primary_key else ""
        empty = "may be null" if field.null else ""
        said = ", ".join(filter(None, (to, str(field.help_text), unique, empty)))
        yield [f"`{field.column}`", kind, said]
