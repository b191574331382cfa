"""A list of rows, page by page: `GET PATH`, narrowed by its parameters."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django.http import Http404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.models import Scope

from . import schema
from .framework.access import require_permissions, within
from .framework.query import Column, Form, PageQuery, page, validated_query
from .framework.tags import ETAG, tag_of
from .framework.view import ApiView

Narrow = Callable[[Any, Mapping[str, Any]], Any]


def where(**paths: str) -> Narrow:
    """Keeps the rows whose column is as the parameter says: parameter → column."""

    def narrow(rows: Any, query: Mapping[str, Any]) -> Any:
        return rows.filter(**{path: query[name] for name, path in paths.items() if name in query})

    return narrow


class ListView(ApiView):
    """`partner`: the path to the partner of a row."""

    scopes = {"GET": Scope.OPERATE}
    narrows = True
    partner: ClassVar[str]
    permission: ClassVar[str]
    rows: ClassVar[Any]
    columns: ClassVar[Mapping[str, Column]]
    query: ClassVar[type[PageQuery]]
    narrow: ClassVar[Narrow]

    def get(self, request: Request) -> Response:
        require_permissions(request, self.permission)
        query = validated_query(request, self.query)
        rows = within(request, self.rows.all(), self.partner)
        return Response(page(type(self).narrow(rows, query), self.columns, query))


class RowView(ApiView):
    """One row of a list, by its id: `GET PATH/ID`, with an ETag."""

    scopes = {"GET": Scope.OPERATE}
    narrows = True
    listed: ClassVar[type[ListView]]
    seen: ClassVar[Mapping[str, Column]]

    def get(self, request: Request, id: int) -> Response:  # noqa: A002
        require_permissions(request, self.listed.permission)
        columns = self.listed.columns
        rows = within(request, self.listed.rows.filter(pk=id), self.listed.partner)
        values = rows.values_list(*columns.values()).first()
        if values is None:
            raise Http404(f"There is no row {id} here.")
        document = dict(zip(columns, values, strict=True))
        tag = tag_of([document[name] for name in self.seen])
        return Response(document, headers={"ETag": f'"{tag}"'})


def row_view(
    name: str,
    description: str,
    document: type[serializers.BaseSerializer[Any]],
    listed: type[ListView],
    seen: Mapping[str, Column],
) -> type[RowView]:
    """Make a view of one row of a list, with its part of the OpenAPI document. `seen`: the columns
    that its ETag stands for, which the actions on it compare."""
    called = "".join(word.capitalize() for word in name.split("_"))
    documented = extend_schema(
        operation_id=name,
        description=description,
        parameters=[ETAG],
        responses={200: document, **schema.problems(404)},
    )
    parts = {"listed": listed, "seen": seen}
    return extend_schema_view(get=documented)(type(f"{called}View", (RowView,), parts))


def list_view(
    name: str,
    description: str,
    document: type[serializers.BaseSerializer[Any]],
    query: type[PageQuery] = PageQuery,
    narrow: Narrow = where(),  # noqa: B008  nothing is changed in it
    **parts: Any,
) -> type[ListView]:
    """Make a view of a list, with its part of the OpenAPI document. `name`: the operation's.
    `parts`: its `permission`, `rows` and `columns`, and the `partner` of a row."""
    called = "".join(word.capitalize() for word in name.split("_")[1:])
    fields = {"results": document(many=True), "next": serializers.IntegerField(allow_null=True)}
    documented = extend_schema(
        operation_id=name,
        description=description,
        parameters=[query],
        responses={200: type(f"{called}Page", (Form,), fields), **schema.problems(400)},
    )
    parts = {"partner": "partner", **parts, "query": query, "narrow": staticmethod(narrow)}
    return extend_schema_view(get=documented)(type(f"{called}View", (ListView,), parts))
