"""Messages we accepted: whether the application has them, and everything that happened."""

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest
from unfold.decorators import display

from msh.models import InboundMessage, InboundPayload

from . import cells
from .message import MessageAdmin


@admin.register(InboundMessage)
class InboundMessageAdmin(MessageAdmin):
    list_display = (
        "identity",
        "partner",
        "number",
        "status",
        "purpose",
        "received",
        "delivered",
        "duplicates",
    )
    sees_payloads = ("msh.view_inboundmessage", "msh.view_payload_inboundmessage")
    fields = (
        ("identity", "status"),
        ("partner", "number"),
        ("agreement", "semantics"),
        ("purpose", "header"),
        ("conversation", "refers_to"),
        ("sent_at", "received_at"),
        ("delivered_at", "duplicates"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[InboundMessage]:
        messages: QuerySet[InboundMessage] = super().get_queryset(request)
        related = messages.select_related("link__partner", "agreement")
        return related.defer("header", "content_digest")

    def payloads(self, message: InboundMessage) -> QuerySet[InboundPayload]:
        parts = InboundPayload.objects.filter(message=message).defer("content")
        return parts.annotate(size=Length("content"))

    @display(description="Received")
    def received(self, message: InboundMessage) -> str:
        return cells.time_of(message.received_at)

    @display(description="Delivered")
    def delivered(self, message: InboundMessage) -> str:
        return cells.time_of(message.delivered_at)
