"""Deliveries: list, with decisions on selected rows, and the page of one."""

from collections.abc import Mapping, Sequence
from typing import cast

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.template.response import TemplateResponse
from unfold.contrib.filters.admin import ChoicesDropdownFilter, RelatedDropdownFilter
from unfold.decorators import display

from msh.admin.framework import headline, markup
from msh.admin.framework.actions import REASON_LIMIT
from msh.admin.framework.business_keys import messages_with_key
from msh.admin.framework.pages import LargeTableAdmin, Table
from msh.admin.framework.timeline import timeline_of
from msh.flows.operations.change_delivery import decide
from msh.models import Delivery
from msh.models.delivery import DeliveryQuerySet
from msh.store.history import Actor

from .delivery_actions import ACKNOWLEDGED, DECISIONS, Replay, consequence_of_many
from .delivery_head import headline_of

BULK_LIMIT = 10_000
"""Deliveries in one decision, at most."""


def _apply(request: HttpRequest, keys: list[int], decision: str, reason: str) -> None:
    outcome = decide(keys, decision, Actor(request.user.get_username(), reason))
    if outcome.done:
        messages.success(request, f"{DECISIONS[decision].title}: {len(outcome.done)} done.")
    for refused in outcome.refused[:20]:
        messages.error(request, refused)
    if len(outcome.refused) > 20:
        messages.error(request, f"{len(outcome.refused) - 20} more were refused.")


class BulkForm(forms.Form):
    """One decision with its reason, for the selected rows."""

    reason = forms.CharField(max_length=REASON_LIMIT)

    field_order = ("decision", "reason")

    def __init__(self, possible: Mapping[str, int], data: QueryDict | None) -> None:
        """`possible`: the number of rows that allow each decision."""
        super().__init__(data)
        choices = [
            (decision, f"{DECISIONS[decision].title} ({count})")
            for decision, count in possible.items()
        ]
        self.fields["decision"] = forms.ChoiceField(choices=choices)
        self.order_fields(self.field_order)


@admin.register(Delivery)
class DeliveryAdmin(LargeTableAdmin[Delivery]):
    list_display = ("identity", "consumer", "status", "attempt", "started", "ended", "error")
    list_filter = (
        ("state", ChoicesDropdownFilter),
        ("consumer", RelatedDropdownFilter),
        ("message__link__partner", RelatedDropdownFilter),
    )
    search_fields = ("message__message_id", "external_id")
    search_help_text = "Complete MessageId, external id or business key"
    list_select_related = ("message__link__partner", "consumer")
    without_fields = True
    change_form_outer_before_template = headline.TEMPLATE
    change_form_outer_after_template = None
    actions = ("decide_in_bulk",)
    operator_actions = (*DECISIONS.values(), Replay())

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
        return self._render_form(request, form, keys, possible)

    def _render_form(
        self, request: HttpRequest, form: BulkForm, keys: list[int], possible: Mapping[str, int]
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": f"Decide on {len(keys)} deliveries",
            "form": form,
            "keys": keys,
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

    def tables(self, request: HttpRequest, row: Delivery) -> list[Table]:
        return [timeline_of(row.message)]

    def has_decide_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(("msh.view_delivery", "msh.decide_delivery"))

    def search(
        self, request: HttpRequest, rows: QuerySet[Delivery], term: str
    ) -> QuerySet[Delivery]:
        messages = messages_with_key(request, "inbound", term)
        return cast("DeliveryQuerySet", rows).with_id(term, messages)

    @display(description="MessageId")
    def identity(self, delivery: Delivery) -> str:
        """In the list, where the cell links to the delivery: links cannot be nested."""
        return markup.isolated(delivery.message.message_id)

    @display(description="State")
    def status(self, delivery: Delivery) -> str:
        return markup.state_badge(delivery)

    @display(description="Started")
    def started(self, delivery: Delivery) -> str:
        return markup.time_of(delivery.started_at)

    @display(description="Ended")
    def ended(self, delivery: Delivery) -> str:
        return markup.time_of(delivery.ended_at)

    @display(description="Last error")
    def error(self, delivery: Delivery) -> str:
        return markup.verbatim(delivery.detail)


def _possible(rows: Sequence[Delivery]) -> dict[str, int]:
    """The number of rows that allow each decision, without zeros."""
    counts = {
        name: sum(not action.why_not(row) for row in rows) for name, action in DECISIONS.items()
    }
    return {name: count for name, count in counts.items() if count}
