"""`refusals`: messages of partners that we refused for good (ebMS 2.0)."""

from django.db.models import F
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.models import Scope, Signal

from . import schema
from .framework.access import require_permissions
from .framework.query import Form, PageQuery, page, text, validated_query
from .framework.view import ApiView


class RefusalsQuery(PageQuery):
    partner = text(help_text="The name of one partner.")
    message_id = text(help_text="The complete MessageId of the refused message.")


class RefusalDocument(Form):
    id = serializers.IntegerField()
    partner = serializers.CharField()
    message_id = serializers.CharField()
    tpa_id = serializers.CharField()
    conversation_id = serializers.CharField()
    code = serializers.CharField(help_text="Of the Error that each copy gets.")
    location = serializers.CharField()
    description = serializers.CharField()
    refused_at = serializers.DateTimeField()


_REFUSAL = {
    "id": F("pk"),
    "partner": F("link__partner__name"),
    "message_id": F("ref_to_message_id"),
    **{name: F(name) for name in ("tpa_id", "conversation_id", "code", "location", "description")},
    "refused_at": F("first_at"),
}


class RefusalsPage(Form):
    results = RefusalDocument(many=True)
    next = serializers.IntegerField(allow_null=True)


class RefusalsView(ApiView):
    scopes = {"GET": Scope.OPERATE}

    @extend_schema(
        operation_id="list_refusals",
        parameters=[RefusalsQuery],
        responses={200: RefusalsPage, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """Messages that were refused for good: each further copy gets the same Error. By id."""
        require_permissions(request, "msh.view_signal")
        query = validated_query(request, RefusalsQuery)
        paths = {"partner": "link__partner__name", "message_id": "ref_to_message_id"}
        wanted = {path: query[name] for name, path in paths.items() if name in query}
        return Response(page(Signal.objects.kept_refusals().filter(**wanted), _REFUSAL, query))
