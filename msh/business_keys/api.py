"""`business-keys`: messages of both directions by a value of their payloads."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.api import schema
from msh.api.framework.access import partners_of
from msh.api.framework.query import Form, text, validated_query
from msh.api.framework.view import ApiView
from msh.models import Scope

from .flows.by_key import messages_with_key


class KeyQuery(Form):
    value = serializers.CharField(
        trim_whitespace=False, help_text="The complete value, such as an invoice number."
    )
    key = text(help_text="Name of the business key. Default: all.")


class FoundDocument(Form):
    direction = serializers.ChoiceField(["out", "in"])
    id = serializers.IntegerField()
    message_id = serializers.CharField()
    partner = serializers.CharField()
    state = serializers.CharField()
    at = serializers.DateTimeField(help_text="submitted, or received")
    key = serializers.CharField()
    value = serializers.CharField()


class FoundPage(Form):
    results = FoundDocument(many=True)


class BusinessKeysView(ApiView):
    scopes = {"GET": Scope.READ_PAYLOAD}
    narrows = True

    @extend_schema(
        operation_id="find_by_business_key",
        parameters=[KeyQuery],
        responses={200: FoundPage, **schema.problems(400)},
    )
    def get(self, request: Request) -> Response:
        """Messages with this value, at most the newest 1,000 of each direction. Values are indexed
        some seconds after a message is stored.
        """
        query: dict[str, Any] = validated_query(request, KeyQuery)
        found = messages_with_key(
            query["value"], name=query.get("key", ""), partner_ids=partners_of(request)
        )
        return Response({"results": [one.as_document() for one in found]})
