"""`statistics`: what the console's page of the same name shows, for programs."""

from typing import Any

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.api import schema
from msh.api.framework.access import partners_of, require_permissions, within
from msh.api.framework.query import Form, text, validated_query
from msh.api.framework.view import ApiView
from msh.models import Scope
from msh.store.snapshot import snapshot
from partners.models import Partner

from .flows import overview, periods
from .store.collect import counted_up_to


class StatisticsQuery(Form):
    period = serializers.ChoiceField(
        tuple(periods.PERIODS),
        default=periods.FIRST,
        help_text="The period before `up_to`, extended to the beginning of its first hour or day.",
    )
    partner = text(help_text="The name of one partner. Default: all with any activity.")


class FiguresDocument(Form):
    submitted = serializers.IntegerField(help_text="Messages submitted by applications.")
    acknowledged = serializers.IntegerField()
    sent = serializers.IntegerField(help_text="BestEffort messages, which are not acknowledged.")
    received = serializers.IntegerField()
    bytes_out = serializers.IntegerField(
        help_text=("Payload bytes of the messages acknowledged or sent.")
    )
    bytes_in = serializers.IntegerField(
        help_text=("Payload bytes of the messages received, decoded.")
    )
    retries = serializers.IntegerField(help_text="Copies after the first one.")
    duplicates = serializers.IntegerField(help_text="Copies received again and discarded.")
    failed = serializers.IntegerField(help_text="Messages to the partner, given up or cancelled.")
    rejected = serializers.IntegerField(help_text="Messages rejected by an application.")
    delivery_failures = serializers.IntegerField(
        help_text=("Failed attempts to deliver to a consumer.")
    )
    in_doubt = serializers.IntegerField(help_text="Deliveries whose outcome was unknown.")
    ack_p50_seconds = serializers.FloatField(
        allow_null=True,
        help_text=(
            "Half were acknowledged within this time after their first copy; accurate to 10 %."
        ),
    )
    ack_p95_seconds = serializers.FloatField(allow_null=True)
    ack_p99_seconds = serializers.FloatField(allow_null=True)


class AgreementFiguresDocument(FiguresDocument):
    tpa_id = serializers.CharField(help_text="Empty: not about a stored message.")


class PartnerFiguresDocument(FiguresDocument):
    partner = serializers.CharField()
    suspended_seconds = serializers.IntegerField(help_text="How long nothing was sent.")
    agreements = AgreementFiguresDocument(many=True)


class StatisticsDocument(Form):
    period = serializers.ChoiceField(tuple(periods.PERIODS))
    begin = serializers.DateTimeField(allow_null=True)
    up_to = serializers.DateTimeField(
        allow_null=True,
        help_text=("Events after this time are not counted yet; null: nothing is counted yet."),
    )
    partners = PartnerFiguresDocument(many=True)


class StatisticsView(ApiView):
    scopes = {"GET": Scope.OPERATE}
    narrows = True

    @extend_schema(
        operation_id="read_statistics",
        parameters=[StatisticsQuery],
        responses={200: StatisticsDocument, **schema.problems(400, 404)},
    )
    def get(self, request: Request) -> Response:
        """Volume, times to Acknowledgement, retries and failures by partner and agreement."""
        require_permissions(request, "msh.view_statistics")
        query = validated_query(request, StatisticsQuery)
        bound = partners_of(request)
        partner_ids = None if bound is None else sorted(bound)
        if "partner" in query:
            partner_ids = _partner_ids(request, query["partner"])
        with snapshot():
            up_to = counted_up_to()
            if up_to is None:
                nothing: dict[str, Any] = {"begin": None, "up_to": None, "partners": []}
                return Response({"period": query["period"], **nothing})
            span = periods.span_of(periods.PERIODS[query["period"]], up_to)
            listed = overview.overview(span, partner_ids)
            return Response(overview.document(listed, span, query["period"]))


def _partner_ids(request: Request, name: str) -> list[int]:
    named = within(request, Partner.objects.filter(name=name), "pk")
    found = list(named.values_list("pk", flat=True))
    if not found:
        raise Http404(f"No partner {name!r}.")
    return found
