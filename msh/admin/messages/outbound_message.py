"""Messages to partners: list, and the page of one."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet, Sum
from django.db.models.functions import Length
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.actions import ActionDialog, Offer
from msh.admin.framework.headline import ALARM, Headline
from msh.admin.framework.pages import Table
from msh.flows.operations.change_flight import flight_of
from msh.flows.operations.inspection.why_not_sent import explanation_of
from msh.flows.operations.link_actions import RESUME
from msh.models import (
    SHOWN_STATES,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
    OutboundPayload,
    OutboundState,
    shown_state,
)
from msh.protocol.flight import FlightState
from msh.protocol.lane import LaneState

from . import flight_actions
from .flight_actions import progress_of
from .message import MessageAdmin
from .message_actions import Cancel, Correct

ATTEMPTS = 100
"""Attempts shown for one message."""
_SHOWN = dict(SHOWN_STATES)


@admin.register(OutboundMessage)
class OutboundMessageAdmin(MessageAdmin[OutboundMessage]):
    direction = "outbound"
    list_display = ("identity", "partner", "number", "status", "purpose", "submitted", "ended")
    payload_permissions = ("msh.view_outboundmessage", "msh.view_payload_outboundmessage")
    in_head = (
        "partner",
        "number",
        "purpose",
        "conversation",
        "submitted",
        "ended",
        "outcome",
        "instead_of",
        "copy",
    )
    in_head_of_flight = ("progress", "next_copy", "copies_end", *in_head)
    fields = (
        "identity",
        "agreement",
        "semantics",
        "kind_of_service",
        "roles",
        "header_document",
        "refers_to",
        "first_sent_at",
        "duplicate_acks",
        "size_on_the_wire",
        "sha256",
        "body_size",
    )
    operator_actions = (*flight_actions.ACTIONS, Cancel(), Correct())

    def get_queryset(self, request: HttpRequest) -> QuerySet[OutboundMessage]:
        messages: QuerySet[OutboundMessage] = super().get_queryset(request)
        joined = messages.select_related("link__partner", "agreement", "flight")
        return joined.annotate(shown=shown_state()).defer("head", "content_digest")

    def head(self, request: HttpRequest, message: OutboundMessage) -> Headline:
        names = self.in_head_of_flight if message.flies else self.in_head
        return Headline(
            badge=self.status(message),
            sentence=markup.in_words(explanation_of(message.pk)),
            tone=ALARM if _stands_still(message) else "",
            facts=self.facts(message, names),
        )

    def offers(
        self,
        request: HttpRequest,
        row: OutboundMessage,
        actions: Iterable[ActionDialog[OutboundMessage]] | None = None,
    ) -> list[Offer]:
        """If its link is suspended, what resumes the link comes first."""
        offers = super().offers(request, row, actions)
        if actions is not None or not _stands_still(row):
            return offers
        links: Any = admin.site.get_model_admin(OutboundLink)
        of_link = links.offers(request, row.link)
        return [*(one for one in of_link if one.action.name == RESUME.name), *offers]

    def order_of(self, message: OutboundMessage) -> OutboundConversation | None:
        """Until it ends."""
        flight = getattr(message, "flight", None)
        return flight.ordered_in if flight else None

    def tables(self, request: HttpRequest, row: OutboundMessage) -> list[Table]:
        seen = self.can_view_payloads(request)
        return [*super().tables(request, row), self._attempts(row, seen=seen)]

    def _attempts(self, message: OutboundMessage, *, seen: bool) -> Table:
        """The body is composed again when a message is queued under another number: those of the
        attempts before that are gone."""
        since, digest = message.first_sent_at, message.body_sha256
        attempts = message.attempts.order_by("-number")[:ATTEMPTS]
        rows = []
        for attempt in attempts:
            if since is None or digest is None or attempt.claimed_at < since:
                bytes_sent: SafeString | str = "composed again since, under another number"
            else:
                bytes_sent = self._bytes(message, bytes(digest).hex(), seen=seen)
            rows.append((*markup.attempt_cells(attempt), bytes_sent))
        headers = (*markup.ATTEMPT_HEADERS, "SHA-256")
        return Table(
            "Copies and their bytes, newest first", headers, rows, "Not sent yet.", folded=True
        )

    def _bytes(self, message: OutboundMessage, sha256: str, *, seen: bool) -> SafeString | str:
        shown = format_html('<span class="msh-id" title="{}">{}…</span>', sha256, sha256[:16])
        if not seen:
            return shown
        address = self.content_url("body_bytes", message.pk)
        return format_html('{} <a href="{}" class="text-link">download</a>', shown, address)

    def payloads(self, message: OutboundMessage) -> QuerySet[OutboundPayload]:
        parts = OutboundPayload.objects.filter(message=message).defer("wire")
        return parts.annotate(size=Length("wire"))

    @display(description="State")
    def status(self, message: Any) -> str:
        state = markup.badge(_SHOWN[message.shown], markup.STATE_VARIANTS.get(message.shown, ""))
        if not _stands_still(message):
            return state
        return format_html("{} {}", state, markup.link_to(message.link, "link suspended"))

    @display(description="Attempts")
    def progress(self, message: OutboundMessage) -> str:
        flight = flight_of(message)
        return progress_of(flight) if flight and flight.due else markup.DASH

    @display(description="Next copy")
    def next_copy(self, message: OutboundMessage) -> str:
        flight = flight_of(message)
        if flight is None or flight.due is None:
            return "none"
        if flight.state is FlightState.WAITING:
            left = not flight.budget_spent
            what = "{}, unless it is acknowledged" if left else "none: its last wait ends {}"
            return format_html(what, markup.time_of(flight.due))
        if message.link.state == LaneState.SUSPENDED:
            return "waits until sending to the partner is resumed"
        return (
            "waits for a worker"
            if flight.under_way
            else ("waits for a worker or a place in the window")
        )

    @display(description="No copy is sent after")
    def copies_end(self, message: OutboundMessage) -> str:
        flight = flight_of(message)
        ends = (flight.expires_at, flight.persists_until) if flight else ()
        return markup.time_of(min((end for end in ends if end), default=None))

    @display(description="Roles, from and to")
    def roles(self, message: OutboundMessage) -> str:
        if not (message.from_role or message.to_role):
            return markup.DASH
        both = markup.isolated(message.from_role), markup.isolated(message.to_role)
        return format_html("{} → {}", *both)

    @display(description="Type of the Service")
    def kind_of_service(self, message: OutboundMessage) -> str:
        return markup.isolated(message.service_type)

    @display(description="Submitted")
    def submitted(self, message: OutboundMessage) -> str:
        return markup.time_of(message.submitted_at)

    @display(description="Completed")
    def ended(self, message: OutboundMessage) -> str:
        return markup.time_of(message.completed_at)

    @display(description="Payload size on the wire")
    def size_on_the_wire(self, message: OutboundMessage) -> str:
        return filesizeformat(message.size)

    @display(description="SHA-256 of the body")
    def sha256(self, message: OutboundMessage) -> str:
        if message.body_sha256 is None:
            return "not sent yet"
        return markup.verbatim(bytes(message.body_sha256).hex())

    @display(description="Size of the body")
    def body_size(self, message: OutboundMessage) -> str:
        head = OutboundMessage.objects.filter(pk=message.pk).aggregate(size=Sum(Length("head")))
        return filesizeformat(head["size"] + message.size) if head["size"] else "not sent yet"

    @display(description="Corrects")
    def instead_of(self, message: OutboundMessage) -> str:
        return markup.link_to(message.corrects) if message.corrects else markup.DASH

    @display(description="Corrected copy")
    def copy(self, message: OutboundMessage) -> str:
        copy = message.corrected_by.first()
        return markup.link_to(copy) if copy else markup.DASH


def _stands_still(message: Any) -> bool:
    """Whether it waits for an operator to resume its link."""
    open_still = message.shown in (OutboundState.QUEUED, OutboundState.IN_FLIGHT)
    return open_still and message.link.state == LaneState.SUSPENDED
