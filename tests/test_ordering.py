"""To order by a relation is to order by the default ordering of the other model, which is often the
newest first: `order_by("message")` gives the last message first. The column is meant."""

import ast
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps

ROOT = Path(__file__).resolve().parents[1]


def test_nothing_is_ordered_by_the_ordering_of_another_model() -> None:
    relations = {
        field.name
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if (other := field.related_model) and other._meta.ordering
    }
    assert {"message", "job"} <= relations
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}: write {name}_id"
        for folder in ("msh", "partners")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, name in ordered_by(ast.parse(path.read_text()))
        if name.rpartition("__")[2].removeprefix("-") in relations
    ]
    assert found == []


def ordered_by(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="order_by"), args=arguments):
                for argument in arguments:
                    match argument:
                        case ast.Constant(value=str(name)):
                            yield node.lineno, name
