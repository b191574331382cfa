"""An operator's action on one row, by its id: `POST .../ID/ACTION` with a reason."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from django.db.models import Model, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.operations.operator_action import OperatorAction
from msh.models import Scope
from msh.store.history import Actor

from . import schema
from .framework.access import require_permissions
from .framework.parsers import JsonParser
from .framework.query import Form, validated_body
from .framework.view import ApiView, actor

REASON_LIMIT = 500  # characters
REFUSALS = (400, 404, 409, 411, 413, 415, 422)

RowT = TypeVar("RowT", bound=Model)


class Reason(Form):
    reason = serializers.CharField(
        max_length=REASON_LIMIT, help_text="Recorded in the history with the user of the token."
    )


class AloneForm(Reason):
    alone = serializers.CharField(
        required=False,
        max_length=REASON_LIMIT,
        allow_blank=True,
        help_text="If a second person must confirm it (MSH_SECOND_PERSON): the reason to go ahead"
        " without one. Requires MSH_ACT_ALONE and the permission.",
    )


class AskedDocument(Form):
    request = serializers.IntegerField(help_text="The number of the request.")
    until = serializers.DateTimeField(help_text="When it lapses.")
    text = serializers.CharField()


ASKED = OpenApiResponse(AskedDocument, "Not done: a second person must confirm it.")


class RowActionView(ApiView):
    """Requires the permissions of `action`, reads `form`, finds the row, calls the flow, and
    answers `status` with a `document` of the row as it is then. A subclass whose flow takes more
    than row and actor, or whose answer is of something else, has its own `act`."""

    scopes = {"POST": Scope.OPERATE}
    parser_classes = [JsonParser]
    action: ClassVar[OperatorAction]
    rows: ClassVar[QuerySet[Any]]
    """With what the flow or the answer needs of other tables."""
    form: ClassVar[type[Form]] = Reason
    document: ClassVar[type[Form]]
    status: ClassVar[int] = 200

    def post(self, request: Request, id: int) -> Response:  # noqa: A002
        require_permissions(request, *self.action.permissions)
        form = validated_body(request, self.form)
        by = actor(request, form.pop("reason"), form.pop("alone", ""))
        row = get_object_or_404(self.rows.all(), pk=id)
        return Response(self.document(self.act(row, by, form)).data, self.status)

    def act(self, row: Any, by: Actor, form: Mapping[str, Any]) -> Any:
        """What the answer is a document of. Raises NotPossible."""
        self.action.flow(row, by)
        return fresh(row)


def fresh(row: RowT) -> RowT:
    row.refresh_from_db()
    return row


ViewT = TypeVar("ViewT", bound=RowActionView)


def documented(operation_id: str, view: type[ViewT]) -> type[ViewT]:
    """The view with its part of the OpenAPI document."""
    asks = {202: ASKED} if issubclass(view.form, AloneForm) else {}
    return extend_schema_view(
        post=extend_schema(
            operation_id=operation_id,
            description=view.action.summary,
            request=view.form,
            responses={view.status: view.document, **asks, **schema.problems(*REFUSALS)},
        )
    )(view)
