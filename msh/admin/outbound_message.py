"""Messages we send: what became of each, and everything that happened to it."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from unfold.decorators import display

from msh.flows import cancel
from msh.flows.advance import Actor
from msh.models import OutboundMessage, OutboundPayload, OutboundState

from . import cells
from .dialog import Verb
from .message import MessageAdmin, searched_by


class CancelQueued(Verb):
    """The one in flight is cancelled on the page of its link, with a verdict."""

    name = "cancel"
    title = "Cancel"
    icon = "block"
    grave = True
    permissions = ("msh.view_outboundmessage", "msh.cancel_outboundlink")

    def why_not(self, row: OutboundMessage) -> str:
        if row.state == OutboundState.QUEUED:
            return ""
        return f"the message is {row.get_state_display()}, not queued."

    def consequence(self, row: OutboundMessage) -> str:
        return (
            "The message was never sent and will not be. It leaves no gap in the numbers. Its"
            " sender is told that it is cancelled. The partner has nothing to do."
        )

    def act(self, row: OutboundMessage, actor: Actor, **given: Any) -> str:
        cancel.cancel(row, None, actor)
        return f"Message {row} is cancelled."


@admin.register(OutboundMessage)
class OutboundMessageAdmin(MessageAdmin):
    list_display = ("message_id", "partner", "number", "status", "purpose", "submitted", "ended")
    list_filter = searched_by("submitted_at", "Submitted")
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

    verbs = (CancelQueued(),)

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
