"""Deliveries: what waits for a decision first; decided one by one or in bulk."""

from collections.abc import Mapping, Sequence
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
from .dialog import REASON_LIMIT, Verb

BULK_LIMIT = 10_000
"""Deliveries that one decision covers at most."""

_ACKNOWLEDGED = "The partner has nothing to do: it has its Acknowledgement."
_LEFT = "What waited behind it has gone on: it is delivered after that, out of order."

_WORDS = {
    "run-again": (
        "Run again",
        "replay",
        (
            "It is given to its consumer again, as a new attempt with fresh retries. If the"
            " consumer has it already, only the Idempotency-Key keeps it from being taken twice."
        ),
    ),
    "mark-completed": (
        "Mark completed",
        "done_all",
        (
            "You say that the consumer has it. It is not given to it again; what waits behind it"
            " goes on."
        ),
    ),
    "ask-resolver": (
        "Ask the resolver",
        "help",
        "The consumer's resolver is asked what became of it, and is believed.",
    ),
    "park": (
        "Park",
        "inventory_2",
        (
            "What waits behind it goes on without it. It is not given to its consumer until you"
            " decide again: run again, mark completed or reject. If its outcome is in doubt, it"
            " stays so."
        ),
    ),
    "reject": (
        "Reject",
        "block",
        "It is not given to its consumer any more. It is kept; what waits behind it goes on.",
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
        before = Value(
            DeliveryState(row.state), row.attempt, row.failures, row.due, _is_parked(row)
        )
        try:
            step(before, VERBS[self.verb], row.consumer.policy, now=timezone.now())
        except IllegalTransition:
            resolver = self.verb == "ask-resolver" and not row.consumer.resolver
            without = f" and consumer {row.consumer} has no resolver" if resolver else ""
            return f"the delivery is {row.get_state_display()}{without}."
        return ""

    def consequence(self, row: Delivery) -> str:
        message = row.message
        number = f"Message {message.sequence_number or ''}".strip()
        which = f"{number} of {message.link.partner}, {cells.visible(message.message_id)}"
        late = [_LEFT] if self.verb == "run-again" and _is_parked(row) else []
        tries = f"attempt {row.attempt}: {row.get_state_display()}"
        about = f"{which}, to consumer {row.consumer} ({tries})."
        return " ".join((about, self._consequence, *late, _ACKNOWLEDGED))

    def about(self, row: Delivery) -> str:
        return f"attempt {row.attempt}"

    def act(self, row: Delivery, actor: Actor, **given: Any) -> str:
        decided = decide([row.pk], self.verb, actor)
        if decided.refused:
            raise NotPossible(decided.refused[0])
        return f"{self.title}: done."


_DECISIONS = {name: Decide(name) for name in _WORDS}


def _is_parked(row: Delivery) -> bool:
    """It has left the order of its pair."""
    return bool(row.message.state == InboundState.PARKED)


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

    reason = forms.CharField(max_length=REASON_LIMIT)

    field_order = ("verb", "reason")

    def __init__(self, possible: Mapping[str, int], *data: Any, **options: Any) -> None:
        """`possible`: for how many of the rows a verb is."""
        super().__init__(*data, **options)
        choices = [(verb, f"{_WORDS[verb][0]} ({count})") for verb, count in possible.items()]
        self.fields["verb"] = forms.ChoiceField(choices=choices)
        self.order_fields(self.field_order)


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
    list_select_related = ("message__link__partner", "consumer")
    fields = (
        ("message_id", "status"),
        ("consumer", "external_id"),
        ("attempt", "failures"),
        ("started_at", "ended_at"),
        "due",
        "error",
    )
    actions = ("decide_in_bulk",)
    verbs = tuple(_DECISIONS.values())

    @admin.action(description="Decide", permissions=["decide"])
    def decide_in_bulk(
        self, request: HttpRequest, queryset: QuerySet[Delivery]
    ) -> HttpResponse | None:
        """The first POST shows the form; the one with a reason decides."""
        rows = list(queryset.defer("message__header").order_by("pk")[:BULK_LIMIT])
        possible = _possible(rows)
        if not possible:
            messages.error(request, "None of these waits for a decision.")
            return None
        form = BulkForm(possible, request.POST if "reason" in request.POST else None)
        keys = [row.pk for row in rows]
        if form.is_valid():
            _decide(request, keys, form.cleaned_data["verb"], form.cleaned_data["reason"])
            return None
        if queryset.count() > BULK_LIMIT:
            messages.warning(request, f"These are the first {BULK_LIMIT} of them.")
        return self._ask(request, form, keys, possible)

    def _ask(
        self, request: HttpRequest, form: BulkForm, keys: list[int], possible: Mapping[str, int]
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": f"Decide on {len(keys)} deliveries",
            "form": form,
            "keys": keys,
            "verbs": [(_WORDS[verb][0], _consequence_of_many(verb)) for verb in possible],
            "acknowledged": _ACKNOWLEDGED,
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


def _possible(rows: Sequence[Delivery]) -> dict[str, int]:
    """For how many of the rows each verb is possible, where it is for any."""
    counts = {name: sum(not verb.why_not(row) for row in rows) for name, verb in _DECISIONS.items()}
    return {name: count for name, count in counts.items() if count}


def _consequence_of_many(verb: str) -> str:
    late = f" Of a parked one: {_LEFT[0].lower()}{_LEFT[1:]}" if verb == "run-again" else ""
    return f"{_WORDS[verb][2]}{late}"
