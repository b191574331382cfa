"""`refusals`: messages of partners that we refused for good (ebMS 2.0)."""

from django.db.models import F
from rest_framework import serializers

from msh.models import Signal

from .framework.query import Form, PageQuery, text
from .lists import list_view, where


class RefusalsQuery(PageQuery):
    partner = text(help_text="The name of one partner.")
    message_id = text(help_text="The complete MessageId of the refused message.")
    code = text(help_text="Of the Error that each copy gets.")


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


REFUSALS = list_view(
    "list_refusals",
    "Messages that were refused for good: each further copy gets the same Error. By id.",
    RefusalDocument,
    RefusalsQuery,
    where(partner="link__partner__name", message_id="ref_to_message_id", code="code"),
    permission="msh.view_signal",
    partner="link__partner",
    rows=Signal.objects.kept_refusals(),
    columns=_REFUSAL,
)
