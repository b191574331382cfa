"""Deliveries: what waits for a decision first; decided one by one or in bulk."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.contrib.filters.admin import ChoicesDropdownFilter, RelatedDropdownFilter
from unfold.decorators import display

from msh.flows.advance import Actor
from msh.flows.decide import VERBS, decide
from msh.flows.operate import NotPossible
from msh.models import Delivery, InboundState
from msh.protocol.delivery import step
from msh.protocol.delivery_events import Delivery as Value
from msh.protocol.delivery_events import DeliveryState
from msh.protocol.errors import IllegalTransition

from . import cells
from .base import EndlessAdmin
from .dialog import Verb

BULK_LIMIT = 10_000
"""Deliveries that one decision covers at most."""

_WORDS = {
    "run-again": (
        "Run again",
        "replay",
        "The message is given to its consumer again, as a new attempt with fresh retries. If the \
consumer has it already, only the Idempotency-Key keeps it from being taken twice.",
    ),
    "mark-completed": (
        "Mark completed",
        "done_all",
        "You say that the consumer has the message. It is not given to it again; what waits \
behind it goes on.",
    ),
    "ask-resolver": (
        "Ask the resolver",
        "help",
        "The consumer's resolver is asked what became of the message, and is believed.",
    ),
    "park": (
        "Park",
        "inventory_2",
        "What waits behind the message goes on without it. It is not given to its consumer until \
you decide again: run again, mark completed or reject. If its outcome is in doubt, it stays so. \
The partner has nothing to do.",
    ),
    "reject": (
        "Reject",
        "block",
        "The message is not given to its consumer any more. It is kept; what waits behind it \
goes on. The partner is not told: it has its Acknowledgement.",
    ),
}


class Decide(Verb):
    """One of the decisions on a delivery, as `flows.decide` names it."""

    permissions = ("msh.view_delivery", "msh.decide_delivery")

    def __init__(self, verb: str) -> None:
        self.verb = verb
        self.name = verb.replace("-", "_")
        self.title, self.icon, self._consequence = _WORDS[verb]

    def why_not(self, row: Delivery) -> str:
        aside = row.message.state == InboundState.PARKED
        before = Value(DeliveryState(row.state), row.attempt, row.failures, row.due, aside)
        try:
            step(before, VERBS[self.verb], row.consumer.policy, now=timezone.now())
        except IllegalTransition:
            resolver = self.verb == "ask-resolver" and not row.consumer.resolver
            without = f" and consumer {row.consumer} has no resolver" if resolver else ""
            return f"the delivery is {row.get_state_display()}{without}."
        return ""

    def consequence(self, row: Delivery) -> str:
        return self._consequence

    def about(self, row: Delivery) -> str:
        return f"attempt {row.attempt}"

    def act(self, row: Delivery, actor: Actor, **given: Any) -> str:
        decided = decide([row.pk], self.verb, actor)
        if decided.refused:
            raise NotPossible(decided.refused[0])
        return f"{self.title}: done."


def _decide(request: HttpRequest, keys: list[int], verb: str, reason: str) -> None:
    decided = decide(keys, verb, Actor(request.user.get_username(), reason))
    if decided.done:
        messages.success(request, f"{_WORDS[verb][0]}: {len(decided.done)} done.")
    for refused in decided.refused[:20]:
        messages.error(request, refused)
    if len(decided.refused) > 20:
        messages.error(request, f"and {len(decided.refused) - 20} more were refused.")


class BulkForm(forms.Form):
    """What stands above the list: one decision with its reason, for the rows that are ticked."""

    verb = forms.ChoiceField(choices=[(verb, words[0]) for verb, words in _WORDS.items()])
    reason = forms.CharField(max_length=500)


@admin.register(Delivery)
class DeliveryAdmin(EndlessAdmin):
    list_display = ("identity", "consumer", "status", "attempt", "started", "ended", "error")
    list_filter = (
        ("state", ChoicesDropdownFilter),
        ("consumer", RelatedDropdownFilter),
        ("message__link__partner", RelatedDropdownFilter),
    )
    search_fields = ("message__message_id", "external_id")
    search_help_text = "MessageId or external id, whole"
    list_select_related = ("message", "consumer")
    fields = (
        ("message_id", "status"),
        ("consumer", "external_id"),
        ("attempt", "failures"),
        ("started_at", "ended_at"),
        "due",
        "error",
    )
    actions = ("decide_in_bulk",)
    verbs = tuple(Decide(verb) for verb in _WORDS)

    @admin.action(description="Decide", permissions=["decide"])
    def decide_in_bulk(
        self, request: HttpRequest, queryset: QuerySet[Delivery]
    ) -> HttpResponse | None:
        """The first POST shows the form; the one with a reason decides."""
        keys = list(queryset.order_by("pk").values_list("pk", flat=True)[:BULK_LIMIT])
        form = BulkForm(request.POST if "reason" in request.POST else None)
        if form.is_valid():
            _decide(request, keys, form.cleaned_data["verb"], form.cleaned_data["reason"])
            return None
        return self._ask(request, form, keys)

    def _ask(self, request: HttpRequest, form: BulkForm, keys: list[int]) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": f"Decide on {len(keys)} deliveries",
            "form": form,
            "keys": keys,
            "verbs": [(words[0], words[2]) for words in _WORDS.values()],
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/msh/delivery/decide.html", context)

    def has_decide_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(("msh.view_delivery", "msh.decide_delivery"))

    def search(self, rows: Any, term: str) -> QuerySet[Any]:
        found: QuerySet[Any] = rows.with_id(term)
        return found

    @display(description="MessageId")
    def identity(self, delivery: Delivery) -> str:
        """In the list, where it leads to the delivery itself: a link in a link is none."""
        return cells.foreign(delivery.message.message_id)

    @display(description="MessageId")
    def message_id(self, delivery: Delivery) -> str:
        return cells.link_to(delivery.message)

    @display(description="State")
    def status(self, delivery: Delivery) -> str:
        return cells.state_badge(delivery)

    @display(description="Started")
    def started(self, delivery: Delivery) -> str:
        return cells.time_of(delivery.started_at)

    @display(description="Ended")
    def ended(self, delivery: Delivery) -> str:
        return cells.time_of(delivery.ended_at)

    @display(description="Last error")
    def error(self, delivery: Delivery) -> str:
        return cells.verbatim(delivery.detail)
