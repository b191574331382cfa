"""`token`: what the token of the request is good for."""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.health import msh_version
from msh.models import Scope
from partners.models.networks import networks_of

from . import schema
from .bulk import LINE_LIMIT, SIZE_LIMIT
from .framework.access import TokenThrottle
from .framework.query import PAGE_LIMIT, Form
from .framework.view import ApiView


class LimitsDocument(Form):
    requests = serializers.IntegerField(
        allow_null=True,
        help_text="Requests of the token in `seconds`, to each web process; null: any number.",
    )
    seconds = serializers.IntegerField(allow_null=True)
    bulk_lines = serializers.IntegerField(help_text="Lines of a bulk request.")
    bulk_bytes = serializers.IntegerField(help_text="Bytes of its lines, decompressed.")
    message_bytes = serializers.IntegerField(help_text="Bytes of the payloads of one message.")
    page_rows = serializers.IntegerField(help_text="Rows of a page.")


class TokenDocument(Form):
    name = serializers.CharField()
    user = serializers.CharField(help_text="In whose name it acts.")
    scopes = serializers.ListField(child=serializers.ChoiceField(Scope.choices))
    missing_permissions = serializers.ListField(
        child=serializers.CharField(),
        help_text="Permissions that the scopes need and the user lacks: those requests get 403.",
    )
    expires = serializers.DateTimeField(allow_null=True, help_text="null: never.")
    networks = serializers.ListField(
        child=serializers.CharField(), help_text="It is accepted only from there; empty: anywhere."
    )
    consumers = serializers.ListField(
        child=serializers.CharField(), help_text="Pull consumers whose messages it may take."
    )
    partners = serializers.ListField(
        child=serializers.CharField(), help_text="Nothing of others exists for it; empty: of all."
    )
    limits = LimitsDocument()
    version = serializers.CharField(help_text="Of this MSH.")


class TokenView(ApiView):
    narrows = True

    @extend_schema(
        operation_id="get_token",
        responses={200: TokenDocument, **schema.problems()},
    )
    def get(self, request: Request) -> Response:
        """The token of this request: what it may do, until when and how much. Any token may ask.
        A client asks this first: a wrong address, certificate or token shows before any work.
        """
        token: Any = request.auth
        throttle = TokenThrottle()
        missing = {name for scope in token.scopes for name in token.lacks(scope)}
        return Response(
            {
                "name": token.name,
                "user": request.user.get_username(),
                "scopes": token.scopes,
                "missing_permissions": sorted(missing),
                "expires": token.expires,
                "networks": [str(network) for network in networks_of(token.networks)],
                "consumers": list(token.consumers.order_by("name").values_list("name", flat=True)),
                "partners": list(token.partners.order_by("name").values_list("name", flat=True)),
                "limits": {
                    "requests": throttle.num_requests,
                    "seconds": throttle.duration,
                    "bulk_lines": LINE_LIMIT,
                    "bulk_bytes": SIZE_LIMIT,
                    "message_bytes": settings.MSH_MESSAGE_LIMIT,
                    "page_rows": PAGE_LIMIT,
                },
                "version": msh_version(),
            }
        )
