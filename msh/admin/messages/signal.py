"""Acknowledgements and Errors: those still to be sent, and those transmitted."""

from collections.abc import Sequence
from typing import cast

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from unfold.contrib.filters.admin import (
    DropdownFilter,
)
from unfold.decorators import display

from msh.admin.framework import headline, markup
from msh.admin.framework.actions import ActionDialog
from msh.admin.framework.filters import PartnerFilter, WordsFilter
from msh.admin.framework.headline import Headline
from msh.admin.framework.pages import LargeTableAdmin
from msh.flows.operations import actions
from msh.flows.operations.inspection.acts import acts_of
from msh.flows.operations.inspection.ways import Standing, filled, words_of
from msh.flows.operations.operator_action import OperatorAction
from msh.models import Signal
from msh.models.signal import SignalQuerySet

_PENDING = "It is still to be sent to {partner}."
_SENT = "Nothing of it is pending."
_REFUSED = (
    "A message of {partner} was refused. Each further copy of it gets the same Error, also when"
    " the cause has been removed here."
)
_ADVICE = (
    "If the partner sent something wrong, it must send a corrected message with a new MessageId."
    " If the cause was ours, such as a setting of the agreement or a wrong clock, correct it."
    " Then {take_back}, and ask the partner to send the message again."
)


class TakeBackRefusal(ActionDialog[Signal]):
    action = actions.TAKE_BACK_REFUSAL
    icon = "undo"

    def consequence(self, row: Signal) -> str:
        said = markup.verbatim(f"{row.code}: {row.description}")
        return format_html("It was refused with {}. {}", said, super().consequence(row))


class PendingFilter(DropdownFilter):
    title = "state"
    parameter_name = "is"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [("pending", "Pending"), ("sent", "Nothing pending"), ("refusal", "Refusal kept")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Signal]) -> QuerySet[Signal]:
        match self.value():
            case "pending":
                return queryset.filter(pending__gt=0)
            case "sent":
                return queryset.filter(pending=0)
            case "refusal":
                return cast("SignalQuerySet", queryset).kept_refusals()
        return queryset


@admin.register(Signal)
class SignalAdmin(LargeTableAdmin[Signal]):
    list_display = (
        "kind",
        "partner",
        "about",
        "code",
        "pending",
        "transmitted",
        "tries",
        "next_try",
        "last_answer",
    )
    list_filter = (
        PendingFilter,
        ("kind", WordsFilter),
        ("link__partner", PartnerFilter),
        ("code", WordsFilter),
    )
    search_fields = ("ref_to_message_id",)
    search_help_text = "Complete RefToMessageId"
    fields = (
        ("kind", "partner"),
        ("about", "sequence_number"),
        ("tpa_id", "conversation_id"),
        ("code", "location"),
        "description",
        ("pending", "transmitted"),
        ("tries", "min_retry_secs"),
        ("first_at", "expires_at"),
        ("due", "last_answer"),
    )

    change_form_outer_before_template = headline.TEMPLATE
    change_form_outer_after_template = None
    operator_actions = (TakeBackRefusal(),)

    def page_context(self, request: HttpRequest, row: Signal) -> dict[str, object]:
        return {"headline": _headline_of(row)}

    def advised(self, row: Signal) -> Sequence[OperatorAction]:
        return acts_of(_advice_on(row))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Signal]:
        signals: QuerySet[Signal] = super().get_queryset(request)
        return signals.select_related("link__partner").defer("body")

    def search(self, request: HttpRequest, rows: QuerySet[Signal], term: str) -> QuerySet[Signal]:
        return cast("SignalQuerySet", rows).with_ref(term)

    @display(description="Partner")
    def partner(self, signal: Signal) -> str:
        return markup.link_to(signal.link, signal.link.partner)

    @display(description="RefToMessageId")
    def about(self, signal: Signal) -> str:
        return markup.trace_link(signal.ref_to_message_id)

    @display(description="Next try")
    def next_try(self, signal: Signal) -> str:
        return markup.time_of(signal.due) if signal.pending else markup.DASH

    @display(description="Last response")
    def last_answer(self, signal: Signal) -> str:
        return markup.verbatim(signal.last_detail)


def _advice_on(signal: Signal) -> str:
    """With marks of the action that it names; empty if none is needed."""
    return filled(_ADVICE, Standing.OVER) if signal.is_kept_refusal else ""


def _headline_of(signal: Signal) -> Headline:
    badge, sentence = markup.badge("sent"), _SENT
    if signal.pending:
        badge, sentence = markup.badge("pending", "warning"), _PENDING
    if signal.is_kept_refusal:
        badge, sentence = markup.badge("refused", "danger"), _REFUSED
    partner = markup.in_words(str(signal.link.partner))
    advice = words_of(_advice_on(signal))
    return Headline(badge, format_html(sentence, partner=partner), advice)
