"""Links from partners: the last message accepted, and the number that is expected next."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count, Min, OuterRef, QuerySet, Subquery
from django.db.models.expressions import CombinedExpression, OrderBy
from django.db.models.functions import Coalesce, Least
from django.http import HttpRequest
from unfold.decorators import display

from msh.admin.framework import curves, markup
from msh.admin.framework.actions import Offer
from msh.admin.framework.pages import ReadOnlyAdmin, Table
from msh.admin.messages.history import history_of_link
from msh.admin.messages.undelivered import standstill
from msh.flows.numbers import has_numbers
from msh.models import (
    Delivery,
    Direction,
    InboundLink,
    InboundMessage,
    InboundState,
    Signal,
)
from msh.protocol import sequence
from msh.protocol.kinds import DeliveryState

from . import inbound_actions
from .counters import arrivals, counters, receiving
from .inbound_conversation import incomplete_conversations
from .link_view import open_incidents

FIRST_ROWS = 10
_STANDING = (DeliveryState.BLOCKED, DeliveryState.IN_DOUBT)


@admin.register(InboundLink)
class InboundLinkAdmin(ReadOnlyAdmin[InboundLink]):
    list_display = (
        *("partner", "state", "undelivered", "oldest", "last_number", "last_message"),
        "expected",
    )
    list_select_related = ("partner",)
    search_fields = ("partner__name", "partner__display_name", "partner__uri")
    search_help_text = "Partner or its URI"
    list_before_template = "admin/msh/framework/live_list.html"
    sortable_by = ()
    fields = ("settings_in_force", "consumers")
    change_form_outer_before_template = "admin/msh/links/inbound_headline.html"
    change_form_outer_after_template = None

    operator_actions = inbound_actions.ACTIONS

    def get_ordering(self, request: HttpRequest) -> Sequence[OrderBy | str]:
        """The links with most undelivered messages come first."""
        return [_waiting().desc(), "partner__name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[InboundLink]:
        links: QuerySet[InboundLink] = super().get_queryset(request)
        return links.prefetch_related("partner__agreements").annotate(
            waiting=_waiting(), waits_since=_waits_since(), stands=_stands()
        )

    @display(description="State")
    def state(self, link: Any) -> str:
        if not link.partner.delivers:
            return markup.badge("deliveries held", "warning")
        if link.stands:
            return markup.badge(link.stands.replace("_", " "), "danger")
        return markup.badge("undelivered") if link.waiting else markup.DASH

    @display(description="Oldest undelivered")
    def oldest(self, link: Any) -> str:
        return markup.ago(link.waits_since) if link.waits_since else markup.DASH

    @display(description="Last MessageId")
    def last_message(self, link: InboundLink) -> str:
        return markup.message_link(link.last_message_id, Direction.IN)

    @display(description="Expected number")
    def expected(self, link: InboundLink) -> int:
        if link.last_number is None:
            return sequence.FIRST
        return sequence.following(link.last_number)

    @display(description="Undelivered")
    def undelivered(self, link: Any) -> int:
        return int(link.waiting)

    @display(description="Settings in force")
    def settings_in_force(self, link: InboundLink) -> str:
        if not has_numbers(link.partner):
            return _limits(link)
        unexpected = {
            f"{one.tpa_id}: {one.on_unexpected_first}" for one in link.partner.agreements.all()
        }
        named = ", ".join(sorted(unexpected)) or "none yet"
        return f"Unexpected number 1, by agreement: {named}. {_limits(link)}"

    @display(description="Messages")
    def consumers(self, link: InboundLink) -> str:
        return "delivered to consumers" if link.partner.delivers else "held by an operator"

    def page_context(self, request: HttpRequest, row: InboundLink) -> dict[str, object]:
        link = row
        (blocking, delivery), numbered = first_undelivered(link), has_numbers(link.partner)
        stands = standstill(request, blocking, delivery) if link.partner.delivers else None
        return {
            "link": link,
            "standstill": stands,
            "jumps": stands.jumps if stands else (),
            "sentence": receiving(link) if numbered else "messages have no sequence numbers",
            "numbered": numbered,
            "last_message": self.last_message(link),
            "incidents": open_incidents(link, Direction.IN),
            "undelivered": self.undelivered(link),
            "oldest": markup.age_of(blocking.received_at) if blocking else "",
            "blocking": markup.link_to(blocking) if blocking else "",
            "delivery": delivery,
            "delivery_page": markup.link_to(delivery, delivery.consumer) if delivery else "",
            "delivery_offers": _offers(request, delivery) if delivery else [],
            "arrivals": arrivals(link.pk),
            "pending": _pending(link).count(),
            "delivery_detail": markup.verbatim(delivery.detail) if delivery else "",
            "counters": counters(link.partner_id),
            "charts": curves.charts(curves.About(partners=(link.partner_id,), waiting=False)),
            "live": blocking is not None,
        }

    def tables(self, request: HttpRequest, row: InboundLink) -> list[Table]:
        return [
            *incomplete_conversations(row),
            _last_messages(row),
            _pending_signals(row),
            *_refused_messages(row),
            history_of_link(row.partner_id, Direction.IN),
        ]


def _waiting() -> CombinedExpression:
    messages = InboundMessage.objects.filter(link=OuterRef("pk"))
    return _count(messages.undelivered()) + _count(messages.undelivered_in_order())


def _waits_since() -> Least:
    """When the oldest undelivered message arrived."""
    messages = InboundMessage.objects.filter(link=OuterRef("pk"))
    pair = messages.undelivered().order_by("pk").values("received_at")[:1]
    # Not the first by its id: no index has this order, and the planner may walk the primary key.
    in_order = messages.undelivered_in_order().order_by().values("link")
    oldest = in_order.annotate(oldest=Min("received_at")).values("oldest")
    return Least(Subquery(pair), Subquery(oldest))  # of NULL and a time: the time


def _stands() -> Subquery:
    """Return what keeps the first message of an order from delivery until an operator decides. No
    messages wait for one that was set aside, or for a replay."""
    undecided = Delivery.objects.filter(message__state=InboundState.ACCEPTED, state__in=_STANDING)
    of_link = undecided.filter(message__link=OuterRef("pk"))
    return Subquery(of_link.order_by("state").values("state")[:1])


def _count(messages: QuerySet[InboundMessage]) -> Coalesce:
    counted = messages.order_by().values("link").annotate(count=Count("pk")).values("count")
    return Coalesce(Subquery(counted), 0)


def _limit(most: int) -> str:
    return f"at most {most}" if most else "unlimited"


def _limits(link: InboundLink) -> str:
    limits = link.partner.limits
    return (
        f"Messages per minute: {_limit(limits.rate)}."
        f" Undelivered messages: {_limit(limits.undelivered_messages)}."
    )


def first_undelivered(link: InboundLink) -> tuple[InboundMessage | None, Delivery | None]:
    """The message that the others wait for, and its delivery."""
    first = _blocking(link)
    if first is None:
        return None, None
    return first, first.deliveries.select_related("consumer", "message").first()


def _blocking(link: InboundLink) -> InboundMessage | None:
    """The oldest undelivered message, or that of a conversation."""
    messages = InboundMessage.objects.filter(link=link, state=InboundState.ACCEPTED).defer("header")
    messages = messages.select_related("link")
    in_order = messages.filter(ordered_in__isnull=False).order_by("ordered_in", "pk")
    return messages.undelivered().order_by("pk").first() or in_order.first()


def _offers(request: HttpRequest, delivery: Delivery) -> list[Offer]:
    deliveries: Any = admin.site.get_model_admin(Delivery)
    offers: list[Offer] = deliveries.offers(request, delivery)
    return offers


def _pending(link: InboundLink) -> QuerySet[Signal]:
    return Signal.objects.filter(link=link, pending__gt=0)


def _pending_signals(link: InboundLink) -> Table:
    """Until the partner has received an Acknowledgement, it sends its message again."""
    rows = [
        (
            markup.link_to(signal, signal.kind),
            markup.trace_link(signal.ref_to_message_id),
            signal.code or markup.DASH,
            signal.pending,
            signal.tries,
            markup.time_of(signal.due),
            markup.verbatim(signal.last_detail),
        )
        for signal in _pending(link).defer("body").order_by("due")[:FIRST_ROWS]
    ]
    headers = ("Kind", "RefToMessageId", "Code", "Pending", "Tries", "Next try", "Last response")
    more = markup.list_url(Signal, link__partner__id__exact=link.partner_id, **{"is": "pending"})
    title = "Pending Acknowledgements and Errors, next try first"
    return Table(title, headers, rows, "None.", more)


def _refused_messages(link: InboundLink) -> list[Table]:
    """An operator may take a refusal back on its page."""
    kept = Signal.objects.kept_refusals().filter(link=link).defer("body").order_by("-pk")
    rows = [
        (
            markup.link_to(signal, signal.ref_to_message_id),
            signal.code,
            markup.verbatim(signal.description),
            markup.time_of(signal.first_at),
        )
        for signal in kept[:FIRST_ROWS]
    ]
    more = markup.list_url(Signal, link__partner__id__exact=link.partner_id, **{"is": "refusal"})
    headers = ("MessageId", "Code", "Why", "Refused")
    return [Table("Refused messages, newest first", headers, rows, "", more)] if rows else []


def _last_messages(link: InboundLink) -> Table:
    messages = InboundMessage.objects.filter(link=link).defer("header")
    rows = [
        (
            markup.link_to(message),
            markup.number_of(message),
            markup.state_badge(message),
            markup.service_and_action(message),
            markup.time_of(message.received_at),
        )
        for message in messages[:FIRST_ROWS]
    ]
    return Table(
        "Messages, newest first",
        ("MessageId", "Number", "State", "ServiceInterface / Action", "Received"),
        rows,
        "No messages accepted yet.",
        markup.list_url(InboundMessage, link__partner__id__exact=link.partner_id),
    )
