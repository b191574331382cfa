"""Conversations that we deliver in order: the number that is missing, and what is held."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.pages import Table
from msh.admin.framework.time_format import format_time
from msh.admin.messages.history import history_of_link
from msh.flows.operations.inspection.ways import Standing, filled
from msh.models import (
    Delivery,
    Direction,
    InboundConversation,
    InboundLink,
    InboundMessage,
    InboundState,
)
from msh.protocol.kinds import IncidentKind

from . import conversation_actions
from .conversation import FIRST_ROWS, ConversationAdmin, list_numbers, waiting_table
from .conversation_actions import count_of, value_of

PLACE = Coalesce("turn", "id")
"""The position of a message in the order of delivery."""


@admin.register(InboundConversation)
class InboundConversationAdmin(ConversationAdmin[InboundConversation]):
    list_display = ("identity", "partner", "under", "status", "oldest", "call")
    operator_actions = conversation_actions.IN
    incident = IncidentKind.PREDECESSOR_MISSING

    def get_queryset(self, request: HttpRequest) -> QuerySet[InboundConversation]:
        rows: QuerySet[InboundConversation] = with_held(super().get_queryset(request))
        return rows

    def waits(self, row: Any) -> bool:
        return bool(row.held_numbers)

    def badge(self, row: Any) -> str:
        if not row.held_numbers:
            return markup.badge("in order", "success")
        return markup.badge("incomplete", "danger" if row.called else "warning")

    def sentence(self, row: InboundConversation) -> str:
        value = value_of(row)
        if value.held:
            wait = "waits" if len(value.held) == 1 else "wait"
            due = f"is opened at {format_time(row.due, timezone.now())} if it is still missing then"
            return (
                f"Number {value.lacks} is missing: {count_of(len(value.held))} {wait} for it."
                f" An incident {'was opened' if row.called else due}."
            )
        if value.next_number is None:
            return "None of its messages was delivered yet. It begins with number 0 and Reset."
        return f"Its messages are in order. Number {value.lacks} comes next."

    def facts(self, row: Any) -> list[tuple[str, object]]:
        return [
            ("Next number", self.next_message(row)),
            ("Oldest held", self.oldest(row)),
            ("Last received", markup.time_of(row.last_at)),
        ]

    def advice(self, row: Any) -> str:
        if not row.held_numbers:
            return ""
        return filled(
            "Ask the partner for it. If it will never arrive, {skip_missing}, or {drop_held}.",
            Standing.LINK,
        )

    def numbers(self, row: Any) -> str:
        value, of_it = value_of(row), _in_order(row)
        delivered = of_it.filter(state=InboundState.DELIVERED).order_by(PLACE.desc()).first()
        said = "None of its messages was delivered yet."
        if delivered is not None:
            at = format_time(delivered.delivered_at, timezone.now())
            said = f"Delivered last: number {delivered.order_number}, at {at}."
        accepted = of_it.filter(link=row.link_id, state=InboundState.ACCEPTED)
        oldest = accepted.order_by(PLACE.asc()).values_list("order_number", flat=True)
        if first := list(oldest[:FIRST_ROWS]):
            waits = list_numbers(first, accepted.count())
            said += f" Received in order, not delivered yet: {waits}."
        said += f" Next number expected from the partner: {value.lacks}."
        held = value.in_order
        return f"{said} Held: {list_numbers(held, len(held))}." if held else said

    def tables(self, request: HttpRequest, row: Any) -> list[Table]:
        return [_held(row), _received(row), history_of_link(row.link.partner_id, Direction.IN)]

    @display(description="Next number")
    def next_message(self, row: InboundConversation) -> str:
        begins = " with Reset" if row.next_number is None else ""
        return f"{value_of(row).lacks}{begins}"

    @display(description="Oldest held")
    def oldest(self, row: Any) -> str:
        return markup.time_and_age(row.held_since) if row.held_since else markup.DASH

    @display(description="Incident")
    def call(self, row: InboundConversation) -> str:
        return call_of(row)


def with_held(conversations: Any) -> Any:
    """With the numbers that are held, at most as many as the protocol allows, and since when."""
    of_it = {"ordered_in": OuterRef("pk"), "state": InboundState.HELD}
    held = InboundMessage.objects.filter(**of_it).order_by()
    return conversations.annotate(
        held_numbers=ArraySubquery(held.values("order_number")),
        held_since=Subquery(held.order_by("received_at").values("received_at")[:1]),
    )


def call_of(row: InboundConversation) -> str:
    if row.called:
        return markup.badge("opened", "danger")
    return format_html("{}", markup.time_of(row.due))


def incomplete_conversations(link: InboundLink) -> list[Table]:
    def cells(one: Any) -> Sequence[object]:
        oldest = markup.time_and_age(one.held_since) if one.held_since else markup.DASH
        return value_of(one).lacks, len(one.held_numbers), oldest, call_of(one)

    rows = with_held(InboundConversation.objects.waiting())
    headers = ("Missing number", "Held", "Oldest held", "Incident")
    return waiting_table(link, rows, "Conversations with a missing message", headers, cells)


def _in_order(row: InboundConversation) -> QuerySet[InboundMessage]:
    """Without those that are held, which have no place yet."""
    return row.messages.exclude(state=InboundState.HELD).defer("header")


def _received(row: InboundConversation) -> Table:
    ran = Exists(Delivery.objects.filter(message=OuterRef("pk")))
    received = _in_order(row).annotate(ran=ran).order_by(PLACE.desc())
    rows = [
        (
            markup.link_to(message),
            markup.number_of(message),
            _state_of(message),
            markup.service_and_action(message),
            markup.time_of(message.received_at),
            markup.time_of(message.delivered_at),
        )
        for message in received[:FIRST_ROWS]
    ]
    headers = (
        *("MessageId", "Number", "State", "ServiceInterface / Action", "Received"),
        "Delivered or given up",
    )
    more = markup.list_url(InboundMessage, q=row.conversation_id)
    return Table("Received and not held, last first", headers, rows, "None.", more)


def _state_of(message: Any) -> str:
    """Return the shown state. A message that an operator gave up while it was held is rejected
    without a delivery."""
    if message.state == InboundState.REJECTED and not message.ran:
        return markup.badge("given up while held", "warning")
    return markup.state_badge(message)


def _held(row: Any) -> Table:
    """The lowest number first."""
    lowest = value_of(row).in_order[:FIRST_ROWS]
    held = InboundMessage.objects.filter(ordered_in=row, state=InboundState.HELD).defer("header")
    by_number = {one.order_number: one for one in held.filter(order_number__in=lowest)}
    rows = [
        (
            markup.link_to(message),
            number,
            markup.service_and_action(message),
            markup.time_of(message.received_at),
        )
        for number in lowest
        if (message := by_number.get(number))
    ]
    headers = ("MessageId", "Number", "ServiceInterface / Action", "Received")
    more = markup.list_url(InboundMessage, q=row.conversation_id)
    return Table("Held, lowest number first", headers, rows, "Nothing is held.", more)
