"""A list of rows, page by page: `GET PATH`, narrowed by its parameters."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.models import Scope

from . import schema
from .framework.access import require_permissions
from .framework.query import Column, Form, PageQuery, page, validated_query
from .framework.view import ApiView

Narrow = Callable[[Any, Mapping[str, Any]], Any]


def where(**paths: str) -> Narrow:
    """Keeps the rows whose column is as the parameter says: parameter → column."""

    def narrow(rows: Any, query: Mapping[str, Any]) -> Any:
        return rows.filter(**{path: query[name] for name, path in paths.items() if name in query})

    return narrow


class ListView(ApiView):
    scopes = {"GET": Scope.OPERATE}
    permission: ClassVar[str]
    rows: ClassVar[Any]
    columns: ClassVar[Mapping[str, Column]]
    query: ClassVar[type[PageQuery]]
    narrow: ClassVar[Narrow]

    def get(self, request: Request) -> Response:
        require_permissions(request, self.permission)
        query = validated_query(request, self.query)
        return Response(page(type(self).narrow(self.rows.all(), query), self.columns, query))


def list_view(
    name: str,
    description: str,
    document: type[serializers.BaseSerializer[Any]],
    query: type[PageQuery] = PageQuery,
    narrow: Narrow = where(),  # noqa: B008  nothing is changed in it
    **parts: Any,
) -> type[ListView]:
    """Make a view of a list, with its part of the OpenAPI document. `name`: the operation's.
    `parts`: its `permission`, `rows` and `columns`."""
    called = "".join(word.capitalize() for word in name.split("_")[1:])
    fields = {"results": document(many=True), "next": serializers.IntegerField(allow_null=True)}
    documented = extend_schema(
        operation_id=name,
        description=description,
        parameters=[query],
        responses={200: type(f"{called}Page", (Form,), fields), **schema.problems(400)},
    )
    parts |= {"query": query, "narrow": staticmethod(narrow)}
    return extend_schema_view(get=documented)(type(f"{called}View", (ListView,), parts))
