"""Messages we send: what became of each, and everything that happened to it."""

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from unfold.decorators import display

from msh.models import OutboundMessage, OutboundPayload

from . import cells
from .message import MessageAdmin


@admin.register(OutboundMessage)
class OutboundMessageAdmin(MessageAdmin):
    list_display = ("message_id", "partner", "number", "status", "purpose", "submitted", "ended")
    fields = (
        ("message_id", "status"),
        ("partner", "number"),
        ("agreement", "semantics"),
        ("service_interface", "action"),
        ("conversation_id", "ref_to_message_id"),
        ("submitted_at", "first_sent_at"),
        ("completed_at", "outcome"),
        ("size_on_the_wire", "duplicate_acks"),
        "sha256",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[OutboundMessage]:
        messages: QuerySet[OutboundMessage] = super().get_queryset(request)
        return messages.select_related("link__partner", "agreement").defer("head", "content_digest")

    def payloads(self, message: OutboundMessage) -> QuerySet[OutboundPayload]:
        parts = OutboundPayload.objects.filter(message=message).defer("wire")
        return parts.annotate(size=Length("wire"))

    @display(description="Submitted")
    def submitted(self, message: OutboundMessage) -> str:
        return cells.time_of(message.submitted_at)

    @display(description="Completed")
    def ended(self, message: OutboundMessage) -> str:
        return cells.time_of(message.completed_at)

    @display(description="Payloads on the wire")
    def size_on_the_wire(self, message: OutboundMessage) -> str:
        return filesizeformat(message.size)

    @display(description="SHA-256 of the body, of every copy")
    def sha256(self, message: OutboundMessage) -> str:
        if message.body_sha256 is None:
            return "not sent yet"
        return cells.verbatim(bytes(message.body_sha256).hex())
