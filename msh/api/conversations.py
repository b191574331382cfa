"""`conversations/out` and `conversations/in`: those that have an order (ebMS 2.0)."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Count, F, Min, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce
from rest_framework import serializers

from msh.models import (
    InboundConversation,
    InboundMessage,
    InboundState,
    OutboundConversation,
)
from msh.protocol.flight import serial
from msh.protocol.flight.numbering import NumberingState

from .documents import NEXT_NUMBER
from .framework.query import Form, PageQuery, text
from .lists import list_view


class ConversationsQuery(PageQuery):
    waiting = serializers.BooleanField(
        required=False,
        help_text=("true: only those that wait for an operator or for a missing message."),
    )
    tpa_id = text(help_text="TPAId of its agreement.")
    conversation_id = text(help_text="The complete ConversationId.")


class ConversationDocument(Form):
    id = serializers.IntegerField()
    partner = serializers.CharField()
    tpa_id = serializers.CharField()
    conversation_id = serializers.CharField()
    next_number = serializers.IntegerField(help_text=NEXT_NUMBER)


class OutboundConversationDocument(ConversationDocument):
    """A conversation that we send in order."""

    resets = serializers.BooleanField(help_text="Its next message is sent with Reset.")
    state = serializers.ChoiceField([state.value for state in NumberingState])
    stopped_by = serializers.ListField(
        child=serializers.CharField(),
        help_text=("MessageIds of the failed or held messages that stop it."),
    )
    broken = serializers.BooleanField(
        help_text="A message that has a number was cancelled: restart the conversation."
    )
    used_at = serializers.DateTimeField()


class InboundConversationDocument(ConversationDocument):
    """A conversation that we deliver in order."""

    held = serializers.IntegerField(help_text="Messages that wait for one before them.")
    held_since = serializers.DateTimeField(allow_null=True)
    due = serializers.DateTimeField(
        allow_null=True, help_text="When an operator is called for the missing message."
    )
    called = serializers.BooleanField(help_text="An incident was opened for it.")
    last_at = serializers.DateTimeField(help_text="Its last change.")


_COMMON: Mapping[str, Any] = {
    "id": F("pk"),
    "partner": F("link__partner__name"),
    "tpa_id": F("agreement__tpa_id"),
    "conversation_id": F("conversation_id"),
}
_OUT: Mapping[str, Any] = {
    **_COMMON,
    **{name: F(name) for name in ("next_number", "resets", "state", "stopped_by", "broken")},
    "used_at": F("used_at"),
}


def _held(column: object) -> Subquery:
    held = InboundMessage.objects.filter(ordered_in=OuterRef("pk"), state=InboundState.HELD)
    return Subquery(held.order_by().values("ordered_in").annotate(found=column).values("found"))


_IN: Mapping[str, Any] = {
    **_COMMON,
    "next_number": Coalesce(F("next_number"), Value(serial.FIRST)),
    "held": Coalesce(_held(Count("pk")), 0),
    "held_since": _held(Min("received_at")),
    **{name: F(name) for name in ("due", "called", "last_at")},
}


def _narrow(rows: Any, query: Mapping[str, Any]) -> Any:
    if "conversation_id" in query:
        rows = rows.named(query["conversation_id"])
    if "tpa_id" in query:
        rows = rows.filter(agreement__tpa_id=query["tpa_id"])
    if "waiting" not in query:
        return rows
    waiting = rows.waiting().order_by()
    return waiting if query["waiting"] else rows.exclude(pk__in=waiting.values("pk"))


CONVERSATIONS = {
    "out": list_view(
        "list_outbound_conversations",
        "Conversations that we send in order, by id.",
        OutboundConversationDocument,
        ConversationsQuery,
        _narrow,
        permission="msh.view_outboundlink",
        partner="link__partner",
        rows=OutboundConversation.objects,
        columns=_OUT,
    ),
    "in": list_view(
        "list_inbound_conversations",
        "Conversations that we deliver in order, by id.",
        InboundConversationDocument,
        ConversationsQuery,
        _narrow,
        permission="msh.view_inboundlink",
        partner="link__partner",
        rows=InboundConversation.objects,
        columns=_IN,
    ),
}
"""The views of conversations by direction."""
