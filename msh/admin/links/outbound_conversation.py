"""Conversations that are sent in order, and what stops them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from django.contrib import admin
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html_join
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.actions import ActionDialog, Offer
from msh.admin.framework.pages import Table
from msh.admin.messages.history import history_of_link
from msh.flows.operations.inspection.acts import acts_of
from msh.flows.operations.inspection.standing import (
    standing_of_broken,
    standing_of_message,
)
from msh.flows.operations.inspection.ways import Standing, filled
from msh.models import (
    Direction,
    Flight,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
    OutboundState,
    shown_state,
)
from msh.protocol.flight.numbering import NumberingState
from msh.protocol.kinds import IncidentKind

from . import conversation_actions
from .conversation import FIRST_ROWS, ConversationAdmin, list_numbers, waiting_table

COUNTED = 100
"""Messages behind a stopped one that are counted."""
_STATES = {
    NumberingState.BEGINNING: "Its next message gets number 0 with Reset.",
    NumberingState.CONFIRMING: "Its message with Reset is not acknowledged yet; the others wait.",
    NumberingState.RUNNING: "Its messages are sent in order. Number {number} comes next.",
    NumberingState.STOPPED: "Stopped by a message that failed or is held; those behind it wait.",
}
_HEADERS = ("MessageId", "Number", "State", "ServiceInterface / Action", "Submitted")


@admin.register(OutboundConversation)
class OutboundConversationAdmin(ConversationAdmin[OutboundConversation]):
    list_display = ("identity", "partner", "under", "status", "stopping")
    operator_actions = conversation_actions.OUT
    incident = IncidentKind.CONVERSATION_STOPPED

    def waits(self, row: OutboundConversation) -> bool:
        return row.state == NumberingState.STOPPED

    def badge(self, row: OutboundConversation) -> str:
        return markup.badge(row.state, "danger" if self.waits(row) else "info")

    def facts(self, row: OutboundConversation) -> list[tuple[str, object]]:
        return [
            ("Next number", self.next_message(row)),
            ("Last used", markup.time_of(row.used_at)),
        ]

    def sentence(self, row: OutboundConversation) -> str:
        if row.broken:
            return (
                "Stopped: a message that has a number was cancelled, and the partner may wait for"
                " it."
            )
        return _STATES[NumberingState(row.state)].format(number=row.next_number)

    def advice(self, row: OutboundConversation) -> str:
        stopping = None if row.broken else _stopping(row).first()
        if stopping is not None:
            standing = standing_of_message(stopping, timezone.now())
        elif row.broken:
            standing = standing_of_broken(row)
        else:
            return ""
        return _advice_on(standing)

    def offers(
        self,
        request: HttpRequest,
        row: OutboundConversation,
        actions: Iterable[ActionDialog[OutboundConversation]] | None = None,
    ) -> list[Offer]:
        """With those of the message that stops it, which come first."""
        offers = super().offers(request, row, actions)
        stopping = _stopping(row).first() if actions is None else None
        if stopping is None:
            return offers
        page: Any = admin.site.get_model_admin(OutboundMessage)
        of_message = page.offers(request, stopping)
        wanted = self.advised(row)
        return [*(one for one in of_message if one.action.action in wanted), *offers]

    def numbers(self, row: OutboundConversation) -> str:
        of_it = _messages(row).in_conversation(row.conversation_id).filter(agreement=row.agreement)
        ended = of_it.filter(state=OutboundState.ACKNOWLEDGED, order_number__isnull=False)
        last = ended.order_by("-pk").first()
        said = "None acknowledged."
        if last is not None:
            said = f"Of those acknowledged, number {last.order_number} is the last in order."
        flying = Flight.objects.filter(ordered_in=row, number__isnull=False)
        numbers = flying.order_by("number").values_list("number", flat=True)
        if first := list(numbers[:FIRST_ROWS]):
            numbered = list_numbers(first, flying.count())
            said += f" With a number and not acknowledged: {numbered}."
        return f"{said} The next message gets number {self.next_message(row)}."

    def tables(self, request: HttpRequest, row: OutboundConversation) -> list[Table]:
        stopping = Table(
            "Messages that stop it",
            (*_HEADERS, "Actions"),
            [(*_cells(one), _acts_on(request, one)) for one in _stopping(row)],
            "None.",
        )
        of_it = _messages(row).filter(flight__ordered_in=row)
        under_way = of_it.filter(flight__waits_turn=False).order_by("flight__number")
        behind = of_it.filter(flight__waits_turn=True).order_by("pk")
        more = markup.list_url(OutboundMessage, q=row.conversation_id)
        return [
            stopping,
            Table("With a number, not acknowledged", _HEADERS, _rows(under_way), "None.", more),
            Table("Waiting for their turn", _HEADERS, _rows(behind), "None.", more),
            history_of_link(row.link.partner_id, Direction.OUT),
        ]

    @display(description="Stopped by")
    def stopping(self, row: OutboundConversation) -> str:
        return stopped_by(row)

    @display(description="Next number")
    def next_message(self, row: OutboundConversation) -> str:
        return f"{row.next_number} with Reset" if row.resets else str(row.next_number)


def _advice_on(standing: Standing) -> str:
    return filled(
        "{Again}. Or {cancel}. After a message of it was cancelled, it can be restarted when"
        " all that was sent of it is acknowledged or cancelled. {Restart}.",
        standing,
    )


def stopped_by(row: OutboundConversation) -> str:
    if not row.stopped_by:
        return "a number that was given up" if row.broken else markup.DASH
    first = [(markup.message_link(one, Direction.OUT),) for one in row.stopped_by[:FIRST_ROWS]]
    return format_html_join(" ", "{}", first)


def stopped_conversations(link: OutboundLink) -> list[Table]:
    behind = Flight.objects.filter(ordered_in=OuterRef("pk"), waits_turn=True).order_by(
        "message_id"
    )
    counted = ArraySubquery(behind.values("pk")[: COUNTED + 1])
    stopped: Any = OutboundConversation.objects.waiting()

    def cells(one: Any) -> Sequence[object]:
        waits = len(one.behind) if len(one.behind) <= COUNTED else f"more than {COUNTED}"
        return stopped_by(one), one.next_number, waits

    headers = ("Stopped by", "Next number", "Messages behind it")
    rows = stopped.annotate(behind=counted)
    return waiting_table(link, rows, "Stopped conversations", headers, cells)


def _messages(row: OutboundConversation) -> Any:
    messages = OutboundMessage.objects.filter(link=row.link_id)
    messages = messages.select_related("flight", "link__partner", "agreement")
    return messages.annotate(shown=shown_state()).defer("head")


def _stopping(row: OutboundConversation) -> Any:
    return _messages(row).filter(message_id__in=row.stopped_by[:FIRST_ROWS]).order_by("pk")


def first_stopping(partner_id: int) -> OutboundMessage | None:
    """The message whose resumption lets the only stopped conversation of a partner go on; None if
    more than one is stopped, or by more than one message."""
    stopped = OutboundConversation.objects.waiting().filter(link__partner=partner_id)[:2]
    by = stopped[0].stopped_by if len(stopped) == 1 else []
    return _stopping(stopped[0]).first() if len(by) == 1 else None


def _rows(messages: Any) -> list[tuple[object, ...]]:
    return [_cells(one) for one in messages[:FIRST_ROWS]]


def _cells(message: Any) -> tuple[object, ...]:
    return (
        markup.link_to(message),
        markup.number_of(message),
        markup.badge(message.shown, markup.STATE_VARIANTS.get(message.shown, "")),
        markup.service_and_action(message),
        markup.time_of(message.submitted_at),
    )


def _acts_on(request: HttpRequest, message: OutboundMessage) -> str:
    """The buttons of what the advice names, on this one of the messages that stop it."""
    named = acts_of(_advice_on(standing_of_message(message, timezone.now())))
    page: Any = admin.site.get_model_admin(OutboundMessage)
    dialogs = [one for one in page.operator_actions if one.action in named]
    offers = [replace(one, recommended=False) for one in page.offers(request, message, dialogs)]
    context = {"offers": offers, "place": "row-"}
    return render_to_string("admin/msh/framework/actions.html", context)
