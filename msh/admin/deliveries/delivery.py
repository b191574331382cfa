"""Deliveries: list, with decisions on selected rows, and the page of one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.template.response import TemplateResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import (
    DropdownFilter,
    RelatedDropdownFilter,
)
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget

from msh.admin.framework import headline, markup
from msh.admin.framework.actions import REASON_LIMIT
from msh.admin.framework.bulk import BulkPage
from msh.admin.framework.filters import DateTimeFilter, PartnerFilter, WordsFilter
from msh.admin.framework.found_by import found_messages
from msh.admin.framework.key_column import KeyColumn
from msh.admin.framework.pages import LargeTableAdmin, Table
from msh.admin.framework.timeline import timeline_of
from msh.flows.operations.change_delivery import decide
from msh.flows.operations.inspection.acts import acts_of
from msh.flows.operations.operator_action import OperatorAction
from msh.models import BulkAction, Delivery, InboundMessage
from msh.models.delivery import DeliveryQuerySet
from msh.store.history import Actor

from .delivery_actions import ACKNOWLEDGED, DECISIONS, REPLAY, consequence_of_many
from .delivery_head import advice_on, headline_of

BULK_LIMIT = 10_000
"""Deliveries in one decision, at most."""
LISTED = 100
"""The number of them on the page of the decision."""
LINKED = 20
"""The number of them in the message that says what was done."""


def _apply(request: HttpRequest, keys: list[int], decision: str, reason: str) -> None:
    outcome = decide(keys, decision, Actor(request.user.get_username(), reason))
    if outcome.done:
        done = f"{DECISIONS[decision].title}: {len(outcome.done)} done."
        messages.success(request, format_html("{} {}", done, _links(outcome.done)))
    for refused in outcome.refused[:20]:
        messages.error(request, refused)
    if len(outcome.refused) > 20:
        messages.error(request, f"{len(outcome.refused) - 20} more were refused.")


def _links(keys: Sequence[int]) -> SafeString:
    """To what was decided: the filters of the list may not select it any more."""
    shown = [Delivery(pk=key) for key in keys[:LINKED]]
    links = format_html_join(
        ", ", "{}", ((markup.link_to(one, f"delivery {one.pk}"),) for one in shown)
    )
    others = len(keys) - len(shown)
    more = f" and {others} more" if others else ""
    return format_html("See what became of {}{}.", links, more)


class BulkForm(forms.Form):
    """One decision with its reason, for the selected rows."""

    reason = forms.CharField(
        max_length=REASON_LIMIT,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text="Recorded in the history of each delivery with your name.",
    )

    field_order = ("decision", "reason")

    def __init__(self, possible: Mapping[str, int], data: QueryDict | None) -> None:
        """`possible`: the number of rows that allow each decision."""
        super().__init__(data)
        choices = [
            (decision, f"{DECISIONS[decision].title} ({count})")
            for decision, count in possible.items()
        ]
        self.fields["decision"] = forms.ChoiceField(
            choices=choices, widget=UnfoldAdminSelectWidget()
        )
        self.order_fields(self.field_order)


class DecisionFilter(DropdownFilter):
    """Those that wait for an operator, to which the menu leads."""

    title = "decision"
    parameter_name = "is"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [("undecided", "Needs a decision")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> QuerySet[Delivery]:
        if self.value() != "undecided":
            return queryset
        return cast("DeliveryQuerySet", queryset).waiting_for_operator()


class ReceivedSinceFilter(DateTimeFilter):
    title = "Received since"
    parameter_name = "since"

    def bounded(self, queryset: QuerySet[Delivery], at: datetime) -> QuerySet[Delivery]:
        return queryset.filter(message__in=InboundMessage.objects.since(at).values("pk"))


@admin.register(Delivery)
class DeliveryAdmin(KeyColumn, BulkPage, LargeTableAdmin[Delivery]):
    bulk = (BulkAction.RUN_AGAIN, BulkAction.REPLAY)
    direction = "inbound"
    list_display = ("identity", "partner", "to", "status", "tries", "started")
    list_display_links = ("identity",)
    list_filter = (
        DecisionFilter,
        ("state", WordsFilter),
        ("consumer", RelatedDropdownFilter),
        ("message__link__partner", PartnerFilter),
        ReceivedSinceFilter,
    )
    list_filter_submit = True
    search_fields = ("message__message_id", "external_id")
    search_help_text = "Complete MessageId, external id or business key"
    list_select_related = ("message__link__partner", "consumer")
    without_fields = True
    change_form_outer_before_template = headline.TEMPLATE
    change_form_outer_after_template = None
    actions = ("decide_in_bulk",)
    bulk_limit = BULK_LIMIT
    operator_actions = (*DECISIONS.values(), REPLAY)

    @admin.action(description="Decide", permissions=["decide"])
    def decide_in_bulk(
        self, request: HttpRequest, queryset: QuerySet[Delivery]
    ) -> HttpResponse | None:
        """The first POST shows the form; the one with a reason decides."""
        rows = list(queryset.defer("message__header").order_by("pk")[:BULK_LIMIT])
        possible = _possible(rows)
        if not possible:
            messages.error(request, "None of the selected deliveries needs a decision.")
            return None
        form = BulkForm(possible, request.POST if "reason" in request.POST else None)
        keys = [row.pk for row in rows]
        if form.is_valid():
            _apply(request, keys, form.cleaned_data["decision"], form.cleaned_data["reason"])
            return None
        if queryset.count() > BULK_LIMIT:
            messages.warning(request, f"Only the first {BULK_LIMIT} of them are included.")
        return self._render_form(request, form, rows, possible)

    def _render_form(
        self,
        request: HttpRequest,
        form: BulkForm,
        rows: Sequence[Delivery],
        possible: Mapping[str, int],
    ) -> HttpResponse:
        count = f"{len(rows)} deliver{'y' if len(rows) == 1 else 'ies'}"
        context = {
            **self.admin_site.each_context(request),
            "title": f"Decide on {count}",
            "form": form,
            "keys": [row.pk for row in rows],
            "rows": [_described(row) for row in rows[:LISTED]],
            "others": len(rows[LISTED:]),
            "decisions": [
                (DECISIONS[decision].title, consequence_of_many(DECISIONS[decision]))
                for decision in possible
            ],
            "acknowledged": ACKNOWLEDGED,
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/msh/deliveries/decide.html", context)

    def page_context(self, request: HttpRequest, row: Delivery) -> dict[str, object]:
        return {"headline": headline_of(row)}

    def advised(self, row: Delivery) -> Sequence[OperatorAction]:
        return acts_of(advice_on(row))

    def tables(self, request: HttpRequest, row: Delivery) -> list[Table]:
        return [timeline_of(row.message)]

    def has_decide_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(("msh.view_delivery", "msh.decide_delivery"))

    def search(
        self, request: HttpRequest, rows: QuerySet[Delivery], term: str
    ) -> QuerySet[Delivery]:
        messages = found_messages(request, "inbound", term)
        return cast("DeliveryQuerySet", rows).with_id(term, messages)

    @display(description="MessageId")
    def identity(self, delivery: Delivery) -> str:
        """In the list, where the cell links to the delivery: links cannot be nested."""
        return markup.one_line(delivery.message.message_id)

    @display(description="Partner")
    def partner(self, delivery: Delivery) -> str:
        return markup.link_to(delivery.message.link.partner)

    @display(description="Consumer")
    def to(self, delivery: Delivery) -> str:
        return markup.link_to(delivery.consumer)

    def message_key(self, row: Delivery) -> int:
        return row.message_id

    @display(description="State")
    def status(self, delivery: Delivery) -> str:
        """With the last error below it, whole on hover."""
        state = markup.state_badge(delivery)
        if not delivery.detail:
            return state
        shown = '{}<div class="msh-note msh-why" title="{}">{}</div>'
        return format_html(shown, state, delivery.detail, markup.in_words(delivery.detail))

    @display(description="Started")
    def started(self, delivery: Delivery) -> str:
        return markup.time_of(delivery.started_at)

    @display(description="Attempts")
    def tries(self, delivery: Delivery) -> str:
        """Of how many, until an operator has to decide."""
        most = delivery.consumer.attempts
        return (
            f"{delivery.attempt} of {most}" if delivery.attempt <= most else str(delivery.attempt)
        )


def _described(row: Delivery) -> SafeString:
    link = markup.link_to(row, row.message.message_id)
    to = markup.in_words(f"from {row.message.link.partner} to consumer {row.consumer}")
    state = markup.state_badge(row)
    return format_html("{} {} {} {}", link, to, state, markup.verbatim(row.detail))


def _possible(rows: Sequence[Delivery]) -> dict[str, int]:
    """The number of rows that allow each decision, without zeros."""
    counts = {
        name: sum(not action.why_not(row) for row in rows) for name, action in DECISIONS.items()
    }
    return {name: count for name, count in counts.items() if count}
