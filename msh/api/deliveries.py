"""`deliveries`: a pull consumer takes messages and settles them."""

from typing import Any

from django.db.models import Exists, OuterRef
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.delivery import pull
from msh.models import Consumer, Delivery, InboundMessage, Scope
from msh.protocol.kinds import DeliveryState
from msh.store.snapshot import snapshot

from . import schema
from .documents import INBOUND, InboundDocument
from .framework.access import partners_of, within
from .framework.parsers import JsonParser
from .framework.query import Form, validated_body
from .framework.view import ApiView
from .inbound import add_content, documents, fitting

TAKE_LIMIT = 100  # messages in one answer
STATES = [state.value for state in DeliveryState]


class Take(Form):
    consumer = serializers.SlugField(max_length=63)
    limit = serializers.IntegerField(min_value=1, max_value=TAKE_LIMIT, default=10)


class TakenDocument(InboundDocument):
    position = serializers.IntegerField(
        allow_null=True, help_text="position in the feed; null: not yet assigned"
    )
    delivery = serializers.IntegerField()
    attempt = serializers.IntegerField()
    replay = serializers.BooleanField(
        help_text="A replay: an operator requested that the completed message be delivered again."
    )
    lease_seconds = serializers.IntegerField(help_text="when the lease ends")


class TakenDocuments(Form):
    results = TakenDocument(many=True)


class Settle(Form):
    attempt = serializers.IntegerField(min_value=1, max_value=2**31 - 1)
    outcome = serializers.ChoiceField([outcome.value for outcome in pull.Outcome])
    reason = serializers.CharField(max_length=1000, default="", allow_blank=True)
    external_id = serializers.CharField(
        max_length=1000, default="", allow_blank=True, help_text="The identifier in your system."
    )


class SettledDocument(Form):
    delivery = serializers.IntegerField()
    attempt = serializers.IntegerField()
    state = serializers.ChoiceField(STATES)


class TakeView(ApiView):
    scopes = {"POST": Scope.CONSUME}
    narrows = True
    parser_classes = [JsonParser]

    @extend_schema(
        operation_id="take_deliveries",
        request=Take,
        responses={200: TakenDocuments, **schema.problems(400, 404, 409, 411, 413, 415, 422)},
    )
    def post(self, request: Request) -> Response:
        """Lease the next message of each pair to the caller, with its payloads: at most `limit`.

        The token has to be bound to the consumer. Settle each before its lease is over. A pair's
        next message is given after that. Content beyond 32 MiB is left out, but never that of the
        first message: get it from `inbound/{id}/payloads/{number}` (scope `read_payload`), or take
        with `limit` 1.
        """
        form = validated_body(request, Take)
        consumer = _consumer(request, form["consumer"])
        taken = {one.message.pk: one for one in pull.take(consumer, form["limit"])}
        rows = InboundMessage.objects.filter(pk__in=taken).order_by("pk")
        with snapshot():
            found = documents(rows.values_list(*INBOUND.values()))
            add_content(fitting(found))
        return Response(
            {
                "results": [
                    {
                        "delivery": taken[message["id"]].delivery,
                        "attempt": taken[message["id"]].attempt,
                        "replay": taken[message["id"]].is_replay,
                        "lease_seconds": consumer.lease,
                        **message,
                    }
                    for message in found
                ]
            }
        )


def _consumer(request: Request, name: str) -> Consumer:
    """Raises Http404, and PermissionDenied if the token is not bound to it."""
    token: Any = request.auth
    bound = Consumer.objects.filter(pk=OuterRef("pk"), api_tokens=token)
    consumer = Consumer.objects.annotate(bound=Exists(bound)).filter(name=name).first()
    if consumer is None:
        raise Http404(f"Consumer {name} does not exist. Create it with manage.py consumer.")
    if not consumer.bound:
        raise PermissionDenied(
            f"Token {token} is not bound to consumer {name}: create a token that is."
        )
    partners = partners_of(request)
    if partners is not None and consumer.partner_id not in partners:
        raise PermissionDenied(
            f"Consumer {name} takes messages of other partners than token {token} is bound to."
        )
    return consumer


class SettleView(ApiView):
    scopes = {"POST": Scope.CONSUME}
    narrows = True
    parser_classes = [JsonParser]

    @extend_schema(
        operation_id="settle_delivery",
        request=Settle,
        responses={200: SettledDocument, **schema.problems(400, 404, 409, 411, 413, 415, 422)},
    )
    def post(self, request: Request, id: int) -> Response:  # noqa: A002
        """Say how an attempt ended, of a delivery to a consumer that the token is bound to. One
        that is not the latest any more changes nothing: `state` says what it is now.
        """
        form = validated_body(request, Settle)
        token: Any = request.auth
        ours = within(
            request, Delivery.objects.filter(consumer__api_tokens=token), "message__link__partner"
        )
        delivery = ours.select_related("consumer").filter(pk=id).first()
        if delivery is None:
            raise Http404(f"No delivery {id}: take it first.")
        state = pull.settle(
            delivery.consumer,
            delivery.pk,
            form["attempt"],
            pull.Outcome(form["outcome"]),
            reason=form["reason"],
            external_id=form["external_id"],
        )
        return Response({"delivery": id, "attempt": form["attempt"], "state": state.value})
