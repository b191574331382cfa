"""Messages we send: what became of each, and everything that happened to it."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import filesizeformat
from unfold.dataclasses import UnfoldAction
from unfold.decorators import action, display

from msh.flows import cancel, operate
from msh.flows.advance import Actor
from msh.models import OutboundMessage, OutboundPayload, OutboundState

from . import cells
from .message import MessageAdmin
from .verbs import ReasonOnlyForm


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

    actions_detail = ("cancel",)

    @action(
        description="Cancel",
        permissions=["cancel"],
        url_path="cancel",
        icon="block",
        dialog={
            "title": "Cancel",
            "description": "The message was never sent and will not be. It leaves no gap in the"
            " numbers. Its sender is told that it is cancelled.",
            "form_class": ReasonOnlyForm,
            "form_submit_text": "Cancel the message",
        },
    )
    def cancel(
        self, request: HttpRequest, form: ReasonOnlyForm, object_id: str
    ) -> HttpResponseRedirect:
        queue = OutboundMessage.objects.select_related("link__partner")
        message = get_object_or_404(queue, pk=object_id)
        actor = Actor(request.user.get_username(), form.cleaned_data["reason"])
        try:
            cancel.cancel(message, None, actor)
        except operate.NotPossible as refused:
            messages.error(request, str(refused))
        else:
            messages.success(request, f"Message {message} is cancelled.")
        return HttpResponseRedirect(cells.page_url(message))

    def has_cancel_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(("msh.view_outboundmessage", "msh.cancel_outboundlink"))

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[UnfoldAction]:
        """The one in flight is cancelled on the page of its link, with a verdict."""
        queued = OutboundMessage.objects.filter(pk=object_id, state=OutboundState.QUEUED)
        return super().get_actions_detail(request, object_id) if queued.exists() else []

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
