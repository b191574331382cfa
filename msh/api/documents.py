"""The documents that the API answers with, for its OpenAPI description; fields in their order."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Count, F, Max, OuterRef, QuerySet, Subquery
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce
from rest_framework import serializers

from msh.models import (
    SHOWN_STATES,
    Attempt,
    BulkItem,
    BulkJob,
    Flight,
    InboundState,
    Incident,
    MaintenanceWindow,
    OutboundMessage,
    shown_state,
)
from msh.protocol.lane import LaneState
from msh.protocol.vocabulary import DeliverySemantics

NEXT_NUMBER = "The number that comes next."
LINK_STATES = [state.value for state in LaneState]

Document = serializers.Serializer[Any]


class PayloadDocument(Document):
    number = serializers.IntegerField(help_text="from 1")
    content_type = serializers.CharField()
    label = serializers.CharField(allow_blank=True)  # type: ignore[assignment]
    description = serializers.CharField(allow_blank=True)
    size = serializers.IntegerField(help_text="bytes of the content")
    sha256 = serializers.CharField(help_text="of the content, in hexadecimal digits")
    removed = serializers.BooleanField(help_text="Retention has removed the content.")
    content_base64 = serializers.CharField(
        required=False, help_text="only if requested, and not if it is removed"
    )


class MessageDocument(Document):
    """The fields that outbound and inbound messages share."""

    id = serializers.IntegerField()
    message_id = serializers.CharField()
    partner = serializers.CharField()
    tpa_id = serializers.CharField()
    semantics = serializers.ChoiceField([s.value for s in DeliverySemantics])
    service_interface = serializers.CharField()
    action = serializers.CharField()
    conversation_id = serializers.CharField()
    ref_to_message_id = serializers.CharField(allow_blank=True)
    sequence_number = serializers.IntegerField(allow_null=True)
    epoch = serializers.IntegerField(allow_null=True)
    from_role = serializers.CharField(allow_blank=True, help_text="ebMS 2.0")
    to_role = serializers.CharField(allow_blank=True, help_text="ebMS 2.0")
    service_type = serializers.CharField(allow_blank=True, help_text="ebMS 2.0")
    order_number = serializers.IntegerField(
        allow_null=True, help_text="ebMS 2.0: MessageOrder, its number in its conversation"
    )


_COMMON: Mapping[str, Any] = {
    "id": F("pk"),
    "message_id": F("message_id"),
    "partner": F("link__partner__name"),
    "tpa_id": F("agreement__tpa_id"),
    "state": F("state"),
    "semantics": F("semantics"),
    "service_interface": F("service_interface"),
    "action": F("action"),
    "conversation_id": F("conversation_id"),
    "ref_to_message_id": F("ref_to_message_id"),
    "sequence_number": F("sequence_number"),
    "epoch": F("epoch"),
    "from_role": F("from_role"),
    "to_role": F("to_role"),
    "service_type": F("service_type"),
    "order_number": F("order_number"),
}


class OutboundDocument(MessageDocument):
    """A message that was submitted."""

    state = serializers.ChoiceField(SHOWN_STATES)
    submitted_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    attempts = serializers.IntegerField(
        allow_null=True, help_text="null: known, but removed by retention"
    )
    size = serializers.IntegerField(help_text="bytes of its payloads")
    payloads = PayloadDocument(
        many=True, required=False, help_text="of one message; in a list if they are requested"
    )


class ExplainedDocument(OutboundDocument):
    """A message that was submitted, and where it is now."""

    explanation = serializers.CharField(
        help_text=(
            "why it is not sent or not acknowledged yet, or how it ended: for people, not to be"
            " parsed"
        )
    )
    instead_of = serializers.CharField(
        allow_null=True, help_text="the MessageId that an operator submitted again as this one"
    )
    submitted_as = serializers.CharField(
        allow_null=True, help_text="the MessageId as which an operator submitted it again"
    )


def _attempts() -> Coalesce:
    made = Attempt.objects.filter(message=OuterRef("pk")).order_by()
    last = made.values("message").annotate(last=Max("number")).values("last")
    return Coalesce(Subquery(last), F("earlier_attempts"))


OUTBOUND: Mapping[str, Any] = {
    **_COMMON,
    "state": shown_state(),
    "size": F("size"),
    "submitted_at": F("submitted_at"),
    "ended_at": F("completed_at"),
    "attempts": _attempts(),
}


class InboundDocument(MessageDocument):
    """A message that was accepted."""

    position = serializers.IntegerField(help_text="position in the feed")
    state = serializers.ChoiceField(InboundState.choices)
    received_at = serializers.DateTimeField()
    size = serializers.IntegerField(help_text="bytes of its payloads")
    payloads = PayloadDocument(many=True)


INBOUND: Mapping[str, Any] = {
    "position": F("feed_position"),
    **_COMMON,
    "received_at": F("received_at"),
}


class LinkDocument(Document):
    """The lane to a partner."""

    id = serializers.IntegerField()
    partner = serializers.CharField()
    state = serializers.ChoiceField(LINK_STATES)
    next_number = serializers.IntegerField()
    in_flight = serializers.CharField(allow_null=True, help_text="MessageId")
    retries_spent = serializers.IntegerField()
    due = serializers.DateTimeField(allow_null=True)
    suspended_since = serializers.DateTimeField(allow_null=True)
    suspended_for = serializers.CharField(allow_blank=True)
    suspended_detail = serializers.CharField(allow_blank=True)
    late_ack = serializers.BooleanField(
        help_text="The message in flight was acknowledged during the suspension: safe to resume."
    )
    queued = serializers.IntegerField(help_text="messages queued behind it")


def _queued() -> Combinable:
    queue: QuerySet[OutboundMessage, Any] = OutboundMessage.objects.queued().order_by()
    flights = Flight.objects.filter(state="ready", under_way=False)
    return _count_of(queue) + _count_of(flights)


def _count_of(rows: QuerySet[Any, Any]) -> Coalesce:
    of_link = rows.filter(link=OuterRef("pk")).order_by()
    return Coalesce(Subquery(of_link.values("link").annotate(n=Count("pk")).values("n")), 0)


LINK: Mapping[str, Any] = {
    "id": F("pk"),
    "partner": F("partner__name"),
    "state": F("state"),
    "next_number": F("next_number"),
    "in_flight": F("in_flight__message_id"),
    "retries_spent": F("retries_spent"),
    "due": F("due"),
    "suspended_since": F("suspended_since"),
    "suspended_for": F("suspended_for"),
    "suspended_detail": F("suspended_detail"),
    "late_ack": F("late_ack"),
    "queued": _queued(),
}


LINK_SEEN: Mapping[str, Any] = {
    name: column for name, column in LINK.items() if name not in ("retries_spent", "due", "queued")
}
"""What its ETag stands for: what changes with each copy or message does not count."""


class IncidentDocument(serializers.ModelSerializer[Incident]):
    partner = serializers.CharField(source="partner.name")

    class Meta:
        model = Incident
        fields = [
            *("id", "partner", "direction", "kind", "message_id", "detail", "count"),
            *("opened_at", "last_at", "resolved_at", "resolved_by", "resolution"),
        ]


INCIDENT: Mapping[str, Any] = {
    name: F("partner__name") if name == "partner" else F(name)
    for name in IncidentDocument.Meta.fields
}


class WindowDocument(serializers.ModelSerializer[MaintenanceWindow]):
    partner = serializers.CharField(source="partner.name")

    class Meta:
        model = MaintenanceWindow
        fields = [
            *("id", "partner", "state", "starts_at", "ends_at", "reason", "planned_by"),
            *("planned_at", "resume_suspended", "ended_at", "ended_by", "outcome"),
        ]


WINDOW: Mapping[str, Any] = {
    name: F("partner__name") if name == "partner" else F(name)
    for name in WindowDocument.Meta.fields
}


class JobDocument(serializers.ModelSerializer[BulkJob]):
    class Meta:
        model = BulkJob
        fields = [
            *("id", "action", "state", "since", "actor", "reason", "started_at", "ended_at"),
            *("total", "done", "refused", "cancelled_by", "cancel_reason"),
        ]
        extra_kwargs = {
            "since": {"help_text": "The rows since then; 1970-01-01: of any time."},
            "total": {"help_text": "Rows."},
            "done": {"help_text": "Rows finished."},
            "refused": {"help_text": "Rows refused: the action was no longer possible."},
        }


JOB: Mapping[str, Any] = {name: F(name) for name in JobDocument.Meta.fields}


class JobRowDocument(serializers.ModelSerializer[BulkItem]):
    class Meta:
        model = BulkItem
        fields = ["id", "key", "label", "done", "detail"]
        extra_kwargs = {
            "key": {"help_text": "The number of the message, delivery or partner."},
            "done": {"help_text": "null: not dealt with yet; false: refused, see `detail`."},
        }


JOB_ROW: Mapping[str, Any] = {name: F(name) for name in JobRowDocument.Meta.fields}
