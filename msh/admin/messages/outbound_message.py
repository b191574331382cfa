"""Messages to partners: list, and the page of one."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet, Sum
from django.db.models.functions import Coalesce, Length, Substr
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from msh import wire
from msh.admin.framework import markup
from msh.admin.framework.actions import ActionDialog, Offer
from msh.admin.framework.bulk import BulkPage, bulk_url, may_begin
from msh.admin.framework.filters import GivenFilter
from msh.admin.framework.headline import ALARM, Headline
from msh.admin.framework.pages import Table
from msh.flows.operations.inspection.acts import acts_of
from msh.flows.operations.inspection.copies import has_it_twice
from msh.flows.operations.inspection.flights import flight_of
from msh.flows.operations.inspection.situation import why_they_failed
from msh.flows.operations.inspection.why_not_sent import advised, explanation_of
from msh.flows.operations.link_actions import RESUME
from msh.flows.operations.many import stopped_messages
from msh.flows.operations.operator_action import OperatorAction
from msh.models import (
    SHOWN_STATES,
    BulkAction,
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
from .message_actions import Cancel, Correct, SubmitAgain
from .search import SEARCH_FILTERS

SELECTED = 100
"""Messages that are selected in the list at most for a bulk job."""
ATTEMPTS = 100
"""Attempts shown for one message."""
_SHOWN = dict(SHOWN_STATES)


class IncidentFilter(GivenFilter):
    """Failed for one incident."""

    title = "incident"
    parameter_name = "incident"

    def given(self, queryset: QuerySet[OutboundMessage], value: str) -> QuerySet[OutboundMessage]:
        if not value.isdecimal():
            return queryset.none()
        return stopped_messages.of(queryset, "", "", int(value))


@admin.register(OutboundMessage)
class OutboundMessageAdmin(BulkPage, MessageAdmin[OutboundMessage]):
    bulk = (BulkAction.SUBMIT_AGAIN, BulkAction.RESUME_MESSAGES)
    list_filter = (*SEARCH_FILTERS, IncidentFilter)
    direction = "outbound"
    list_display = ("in_list", "partner", "number", "status", "submitted", "ended")
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
        "payload_size",
        "sha256",
        "body_size",
    )
    operator_actions = (*flight_actions.ACTIONS, SubmitAgain(), Cancel(), Correct())
    actions = ("submit_again", "resume_messages")

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Read why messages of the page failed at once."""
        listed = super().get_changelist_instance(request)
        why = why_they_failed(listed.result_list)
        for row in listed.result_list:
            row.why_failed = why.get(row.pk, "")
        return listed

    def get_queryset(self, request: HttpRequest) -> QuerySet[OutboundMessage]:
        messages: QuerySet[OutboundMessage] = super().get_queryset(request)
        joined = messages.select_related("link__partner", "agreement", "flight")
        return joined.annotate(shown=shown_state()).defer("head", "content_digest")

    def head(self, request: HttpRequest, message: OutboundMessage) -> Headline:
        names = self.in_head_of_flight if message.flies else self.in_head
        return Headline(
            badge=self.status(message),
            sentence=markup.in_words(explanation_of(message.pk)),
            tone=ALARM if _stands_still(message) or has_it_twice(message) else "",
            facts=self.facts(message, names),
        )

    def offers(
        self,
        request: HttpRequest,
        row: OutboundMessage,
        actions: Iterable[ActionDialog[OutboundMessage]] | None = None,
    ) -> list[Offer]:
        """If its link is suspended, what helps the link comes first."""
        offers = super().offers(request, row, actions)
        if actions is not None or not _stands_still(row):
            return offers
        links: Any = admin.site.get_model_admin(OutboundLink)
        wanted = (RESUME, *self.advised(row))
        of_link = [one for one in links.offers(request, row.link) if one.action.action in wanted]
        return [*(one for one in of_link if one not in offers), *offers]

    def advised(self, row: OutboundMessage) -> Sequence[OperatorAction]:
        return acts_of(advised(row))

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

    def payloads(self, message: OutboundMessage) -> Iterable[OutboundPayload]:
        """Only the ends of each part are read, to tell its content from headers and delimiters."""
        parts: Any = OutboundPayload.objects.filter(message=message).defer("wire", "encrypted")
        found = parts.annotate(
            length=Length("wire"),
            begin=Substr("wire", 1, wire.PART_HEADER_LIMIT),
            end=Substr("wire", Length("wire") - wire.DELIMITER_LIMIT + 1),
        )
        for part in found:
            ends = bytes(part.begin), bytes(part.end)
            part.size = part.length - wire.dress_of_part(*ends, message.boundary)
            yield part

    @display(description="State")
    def status(self, message: Any) -> str:
        state = markup.badge(_SHOWN[message.shown], markup.STATE_VARIANTS.get(message.shown, ""))
        if why := getattr(message, "why_failed", ""):
            shown = '{}<div class="msh-note msh-why" title="{}">{}</div>'
            return format_html(shown, state, why, markup.in_words(why))
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

    @display(description="Size of the payloads")
    def payload_size(self, message: OutboundMessage) -> str:
        return filesizeformat(message.size)

    @display(description="SHA-256 of the body")
    def sha256(self, message: OutboundMessage) -> str:
        if message.body_sha256 is None:
            return "not sent yet"
        return markup.verbatim(bytes(message.body_sha256).hex())

    @display(description="Size of the body")
    def body_size(self, message: OutboundMessage) -> str:
        if message.body_sha256 is None:
            return "not sent yet"
        head = OutboundMessage.objects.filter(pk=message.pk).aggregate(size=Sum(Length("head")))
        parts = OutboundPayload.objects.filter(message=message).aggregate(
            size=Sum(Length(Coalesce("encrypted", "wire")))
        )
        if parts["size"] is None and message.size:
            return "its payloads were removed by retention"
        return filesizeformat(head["size"] + (parts["size"] or 0))

    @display(description="Instead of")
    def instead_of(self, message: OutboundMessage) -> str:
        return _with_state(message.corrects)

    @display(description="Submitted again as")
    def copy(self, message: OutboundMessage) -> str:
        return _with_state(message.corrected_by.first())

    @admin.action(description="Submit again", permissions=["submit_again"])
    def submit_again(
        self, request: HttpRequest, queryset: QuerySet[OutboundMessage]
    ) -> HttpResponse | None:
        return self._in_bulk(request, queryset, BulkAction.SUBMIT_AGAIN)

    @admin.action(description="Resume messages", permissions=["resume_messages"])
    def resume_messages(
        self, request: HttpRequest, queryset: QuerySet[OutboundMessage]
    ) -> HttpResponse | None:
        return self._in_bulk(request, queryset, BulkAction.RESUME_MESSAGES)

    def _in_bulk(
        self, request: HttpRequest, queryset: QuerySet[OutboundMessage], action: BulkAction
    ) -> HttpResponse | None:
        """The preview of a bulk job, which says what of the selection does not fit."""
        keys = list(queryset.order_by("pk").values_list("pk", flat=True)[: SELECTED + 1])
        if len(keys) > SELECTED:
            messages.error(
                request,
                f"Select at most {SELECTED} messages. For more, filter the list and begin a bulk"
                " job below it.",
            )
            return None
        chosen = ",".join(map(str, keys))
        return HttpResponseRedirect(bulk_url(request, action, id__in=chosen))

    def has_submit_again_permission(self, request: HttpRequest) -> bool:
        return may_begin(request, BulkAction.SUBMIT_AGAIN)

    def has_resume_messages_permission(self, request: HttpRequest) -> bool:
        return may_begin(request, BulkAction.RESUME_MESSAGES)


def _with_state(message: OutboundMessage | None) -> str:
    if message is None:
        return markup.DASH
    return format_html("{} {}", markup.link_to(message), markup.state_badge(message))


def _stands_still(message: Any) -> bool:
    """Whether it waits for an operator to resume its link."""
    open_still = message.shown in (OutboundState.QUEUED, OutboundState.IN_FLIGHT)
    return open_still and message.link.state == LaneState.SUSPENDED
